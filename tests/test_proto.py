"""The generated protobuf code: current, importable, and complete for what the corpus holds.

"Complete" means that no message read from real tables has an unknown field; a field that a newer
Lance adds shows up here first.
"""

from __future__ import annotations

import itertools
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from support import CORPUS, CorpusCase, of_each_case

from lancefs.proto import (
    container_pb2,
    encodings_v2_0_pb2,
    encodings_v2_1_pb2,
    encodings_v2_3_pb2,
    index_pb2,
    rowids_pb2,
    schema_pb2,
    table_pb2,
    transaction_pb2,
)

ROOT = Path(__file__).resolve().parent.parent

# What an `Any` names, by the full name at the end of its type URL, in lower case.
ANY_TYPES: dict[str, type[Message]] = {
    "lance.encodings.arrayencoding": encodings_v2_0_pb2.ArrayEncoding,
    "lance.encodings.columnencoding": encodings_v2_0_pb2.ColumnEncoding,
    "lance.encodings21.pagelayout": encodings_v2_1_pb2.PageLayout,
    "lance.encodings23.planarlayout": encodings_v2_3_pb2.PlanarLayout,
    "lance.table.fragmentreuseindexdetails": table_pb2.FragmentReuseIndexDetails,
    "lance.table.memwalindexdetails": table_pb2.MemWalIndexDetails,
}
for _package in ("lance.table", "lance.index.pb"):
    for _name in index_pb2.DESCRIPTOR.message_types_by_name:
        if _name.endswith("IndexDetails"):
            ANY_TYPES[f"{_package}.{_name}".lower()] = getattr(index_pb2, _name)


# -- unknown fields ----------------------------------------------------------------------------


def unknown_fields(message: Message) -> Iterator[str]:
    """`Message.number` of every field, at any depth, that our protos do not name."""
    unknown = UnknownFieldSet(message)
    for index in range(len(unknown)):
        yield f"{message.DESCRIPTOR.full_name}.{unknown[index].field_number}"
    if isinstance(message, any_pb2.Any):
        yield from unknown_in_any(message)
    for field, value in message.ListFields():
        if field.message_type is None:
            yield from unknown_in_bytes(field.full_name, value)
        elif isinstance(value, Message):
            yield from unknown_fields(value)
        else:
            is_map = field.message_type.GetOptions().map_entry
            for item in value.values() if is_map else value:
                if isinstance(item, Message):
                    yield from unknown_fields(item)


def unknown_in_any(message: any_pb2.Any) -> Iterator[str]:
    name = message.type_url.rpartition("/")[2]
    if name.lower() not in ANY_TYPES:
        yield f"type {message.type_url}"
        return
    yield from unknown_fields(ANY_TYPES[name.lower()].FromString(message.value))


def unknown_in_bytes(field: str, value: object) -> Iterator[str]:
    """Fields that hold a serialised message."""
    kinds: dict[str, type[Message]] = {
        "inline_row_ids": rowids_pb2.RowIdSequence,
        "inline_last_updated_at_versions": rowids_pb2.RowDatasetVersionSequence,
        "inline_created_at_versions": rowids_pb2.RowDatasetVersionSequence,
        "DirectEncoding.encoding": any_pb2.Any,
    }
    for suffix, kind in kinds.items():
        if field.endswith(suffix):
            assert isinstance(value, bytes)
            yield from unknown_fields(kind.FromString(value))


# -- reading the files, just far enough --------------------------------------------------------


def framed(data: bytes, position: int) -> bytes:
    """A message with a u32 length before it."""
    (length,) = struct.unpack_from("<I", data, position)
    body = data[position + 4 : position + 4 + length]
    assert len(body) == length
    return body


def manifest_messages(path: Path) -> Iterator[Message]:
    data = path.read_bytes()
    position, _major, _minor, magic = struct.unpack("<QHH4s", data[-16:])
    assert magic == b"LANC"
    manifest = table_pb2.Manifest.FromString(framed(data, position))
    assert manifest.version > 0
    yield manifest
    if manifest.HasField("index_section"):
        yield table_pb2.IndexSection.FromString(framed(data, manifest.index_section))
    for field in ("transaction_section", "transaction_section_deprecated"):
        if manifest.HasField(field):
            section = framed(data, getattr(manifest, field))
            yield transaction_pb2.Transaction.FromString(section)


def data_file_messages(path: Path) -> Iterator[Message]:
    data = path.read_bytes()
    major, minor, magic = struct.unpack("<HH4s", data[-8:])
    assert magic == b"LANC"
    if (major, minor) in ((0, 1), (0, 2)):
        (position,) = struct.unpack("<Q", data[-16:-8])
        metadata = schema_pb2.Metadata.FromString(framed(data, position))
        yield metadata
        if metadata.manifest_position:
            yield table_pb2.Manifest.FromString(framed(data, metadata.manifest_position))
        return
    _, columns_at, globals_at, num_globals, num_columns = struct.unpack("<QQQII", data[-40:-8])
    assert num_globals
    position, size = struct.unpack_from("<QQ", data, globals_at)
    yield schema_pb2.FileDescriptor.FromString(data[position : position + size])
    for column in range(num_columns):
        position, size = struct.unpack_from("<QQ", data, columns_at + 16 * column)
        yield container_pb2.ColumnMetadata.FromString(data[position : position + size])


def case_messages(case: str) -> Iterator[tuple[Path, Message]]:
    table = CORPUS / case / "table.lance"
    for path in sorted(table.rglob("*.manifest")):
        for message in manifest_messages(path):
            yield path, message
    for path in sorted(table.rglob("*.txn")):
        yield path, transaction_pb2.Transaction.FromString(path.read_bytes())
    for path in sorted(table.rglob("*.lance")):
        if path.is_file() and path.parent.name == "data":
            for message in data_file_messages(path):
                yield path, message


# -- tests -------------------------------------------------------------------------------------


def test_generated_code_is_current() -> None:
    pytest.importorskip("grpc_tools", reason="the check compiles protos/ with grpcio-tools")
    result = subprocess.run(
        [sys.executable, str(ROOT / "protos" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_no_runtime_version_check() -> None:
    """An older protobuf than the one that generated the code must be good enough."""
    modules = sorted((ROOT / "lancefs" / "proto").glob("*_pb2.py"))
    assert modules
    for path in modules:
        assert "runtime_version" not in path.read_text("utf-8"), path.name


def test_names_are_our_own() -> None:
    """Nothing in the process-wide descriptor pool may clash with Lance's own protos."""
    for module in (container_pb2, index_pb2, schema_pb2, table_pb2, transaction_pb2):
        assert module.DESCRIPTOR.name.startswith("lancefs/proto/")
        assert module.DESCRIPTOR.package.startswith("lancefs.pb.")


def test_every_message_says_where_it_is_from() -> None:
    for path in sorted((ROOT / "protos").glob("*.proto")):
        lines = path.read_text("utf-8").splitlines()
        for before, line in itertools.pairwise(lines):
            if line.lstrip().startswith("message "):
                assert before.lstrip().startswith("// docs: format/"), f"{path.name}: {line}"


def test_unknown_fields_are_found() -> None:
    fragment = table_pb2.DataFragment.FromString(b"\xf8\x01\x07")  # field 31, varint 7
    manifest = table_pb2.Manifest(version=1, fragments=[fragment])
    assert list(unknown_fields(manifest)) == ["lancefs.pb.table.DataFragment.31"]


@of_each_case
def test_no_unknown_fields(case: CorpusCase) -> None:
    seen = 0
    for path, message in case_messages(case.name):
        seen += 1
        unknown = sorted(set(unknown_fields(message)))
        assert not unknown, f"{path.relative_to(CORPUS)}: {', '.join(unknown)}"
    assert seen
