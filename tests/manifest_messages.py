"""Messages of real manifests, mutants of them, and whether protobuf reads them alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from damage import wire
from google.protobuf.message import DecodeError
from support import ORDERS, corpus_cases, local_store

from lancefs.errors import CorruptFile
from lancefs.proto import table_pb2
from lancefs.storage import Store
from lancefs.table.fragment_table import parse_manifest
from lancefs.table.refs import Ref, resolve
from lancefs.table.tags_and_branches import list_branches
from lancefs.table.versions import list_versions


def messages_of(store: Store) -> Iterator[bytes]:
    """Yield the message of each manifest of a table, those of its branches included."""
    branches = [resolve(store, Ref(branch=name)).store for name in list_branches(store)]
    for where in (store, *branches):
        for version in list_versions(where):
            data = where.file(version.path).read_whole().tobytes()
            start = int.from_bytes(data[-16:-8], "little")
            yield data[start + 4 : -16]


def real_messages(tables: int | None = None) -> list[bytes]:
    """Return the messages of the table of the demo, and of tables of the corpus if it is there."""
    cases = corpus_cases()[: tables and 40 * tables : 40 if tables else 1]
    stores = [local_store(ORDERS), *(case.store() for case in cases)]
    return [data for store in stores for data in messages_of(store)]


def mutant(sound: list[bytes], rng: np.random.Generator) -> bytes:
    """Damage one of some messages: its fields, or its bytes, or first these and then those."""
    data = sound[rng.integers(len(sound))]
    way = rng.integers(4)
    if way:
        data, _ = wire.damage(data, rng)
    if way < 2:
        data = _damage_bytes(data, rng)
    return data


def _damage_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, insert, remove or stretch bytes; lengths in front of them lie then."""
    at = int(rng.integers(len(data) + 1))
    match rng.integers(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + rng.bytes(int(rng.integers(1, 4))) + data[at:]
        case 2:
            return data[:at] + data[at + 1 + int(rng.integers(4)) :]
        case 3:  # a number of more bytes than it needs
            return data[:at] + bytes([0x80] * int(rng.integers(1, 11))) + data[at:]
    changed = bytearray(data or b"\0")
    changed[at % len(changed)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def check_as_protobuf_reads_it(data: bytes) -> None:
    """Check that a manifest is parsed, or refused, as protobuf alone parses or refuses it."""
    try:
        expected = table_pb2.Manifest.FromString(data)
    except DecodeError as error:
        with pytest.raises(CorruptFile, match=re.escape(f"the message does not decode: {error}")):
            parse_manifest(data)
        return
    parsed = parse_manifest(data)
    columns = parsed.columns
    messages = [
        table_pb2.DataFragment.FromString(parsed.data[start:end])
        for start, end in zip(columns.starts, columns.ends, strict=True)
    ]
    assert messages == list(expected.fragments)
    assert columns.ids.view(np.uint64).tolist() == [one.id for one in messages]
    assert columns.rows.tolist() == [min(one.physical_rows, 2**62) for one in messages]
    counts = [min(one.deletion_file.num_deleted_rows, 2**62) or -1 for one in messages]
    has_file = [one.HasField("deletion_file") for one in messages]
    assert columns.deleted.tolist() == [n * has for n, has in zip(counts, has_file, strict=True)]
    assert table_pb2.Manifest.FromString(parsed.schema).fields == expected.fields
    expected.ClearField("fields")
    expected.ClearField("fragments")
    assert parsed.message == expected
