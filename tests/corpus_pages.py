"""What occurs in the data files of the corpus: layouts, encodings and types, by file version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from google.protobuf.message import Message
from support import corpus_cases, local_store

from lancefs.datafile.container import Container, Page
from lancefs.datafile.legacy.footer import Tail, read_footer
from lancefs.proto import encodings_v2_0_pb2 as pb20
from lancefs.proto import encodings_v2_1_pb2 as pb21
from lancefs.proto import encodings_v2_3_pb2 as pb23
from lancefs.proto import schema_pb2, table_pb2
from lancefs.storage import File

# What occurs: a kind (`layout`, `encoding`, `array`, `legacy` or `type`), a name, a file version.
Occurrences = dict[tuple[str, str, str], int]

_LEGACY = b"\0\0\1\0LANC", b"\0\0\2\0LANC"


@cache
def occurrences() -> Occurrences:
    """Count the pages (for types: the fields) of all data files of the corpus."""
    found: Occurrences = defaultdict(int)
    for case in corpus_cases():
        store = local_store(case.directory / "table.lance")
        for path in sorted((case.directory / "table.lance").rglob("data/*.lance")):
            file = store.file(str(path.relative_to(case.directory / "table.lance")))
            for version, kind, name in of_data_file(file):
                found[kind, name, version] += 1
    return dict(found)


def of_data_file(file: File) -> Iterator[tuple[str, str, str]]:
    """Yield what occurs in a data file: the version of its format, a kind, and a name."""
    is_legacy = file.read_tail(8)[1].tobytes() in _LEGACY
    return _of_legacy(file) if is_legacy else _of_container(file)


def _of_legacy(file: File) -> Iterator[tuple[str, str, str]]:
    tail = Tail(file)
    for field in read_footer(tail).fields.values():
        if field.has_pages:
            yield "0.1", "legacy", field.encoding.name
    for case_field in _legacy_schema(tail).fields:
        yield "0.1", "type", _family(case_field)


def _legacy_schema(tail: Tail) -> table_pb2.Manifest:
    end = tail.size - 16
    position = int.from_bytes(tail.read(end, end + 8).tobytes(), "little")
    length = int.from_bytes(tail.read(position, position + 4).tobytes(), "little")
    metadata = schema_pb2.Metadata.FromString(
        tail.read(position + 4, position + 4 + length).tobytes()
    )
    position = metadata.manifest_position
    length = int.from_bytes(tail.read(position, position + 4).tobytes(), "little")
    return table_pb2.Manifest.FromString(tail.read(position + 4, position + 4 + length).tobytes())


def _of_container(file: File) -> Iterator[tuple[str, str, str]]:
    container = Container(file)
    version = ".".join(map(str, container.footer.version))
    container.load_columns(range(len(container.footer.columns)))
    for index in range(len(container.footer.columns)):
        for page in container.column(index).pages:
            for kind, name in set(_of_page(page)):
                yield version, kind, name
    descriptor = container.descriptor()
    for field in descriptor.schema.fields:
        yield version, "type", _family(field)


def _of_page(page: Page) -> Iterator[tuple[str, str]]:
    name = page.encoding.type_name
    if name == "lance.encodings.ArrayEncoding":
        message: Message = pb20.ArrayEncoding.FromString(page.encoding.data)
        yield from (("array", kind) for kind in _members(message, "array_encoding"))
    elif name == "lance.encodings21.PageLayout":
        message = pb21.PageLayout.FromString(page.encoding.data)
        yield "layout", str(message.WhichOneof("layout"))
        yield from (("encoding", kind) for kind in _members(message, "compression"))
    else:
        planar = pb23.PlanarLayout.FromString(page.encoding.data)
        planes = (planar.structure.WhichOneof("codec"), planar.values.WhichOneof("codec"))
        yield "layout", f"{planes[0]} × {planes[1]}"
        yield from (("encoding", kind) for kind in _members(planar, "compression"))


def _members(message: Message, oneof: str) -> Iterator[str]:
    """Yield which member of a oneof is set, in a message and in all messages in it."""
    if oneof in message.DESCRIPTOR.oneofs_by_name:
        kind = message.WhichOneof(oneof)
        if kind is not None:
            yield kind
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in value if field.is_repeated else [value]:
                yield from _members(child, oneof)


def _family(field: schema_pb2.Field) -> str:
    """The row of the page that a field belongs to."""
    extension = field.metadata.get("ARROW:extension:name", b"").decode() or field.extension_name
    if extension:
        return extension
    if "lance-encoding:blob" in field.metadata:
        return "blob"
    return field.logical_type.removesuffix(".struct").partition(":")[0]
