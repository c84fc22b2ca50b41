"""Indices: what each one is over, which fragments it covers, and what it costs.

They stand in a section of the manifest file. An index may have several segments, which share its
name. Two kinds are the format's own: the fragment reuse index says how a compaction moved rows that
other indices still know by their old addresses, the MemWAL index keeps the state of a write-ahead
log. Nothing here searches in an index.

Format pages: table format, section "Indices", and `docs/src/format/table/index/`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, locating
from lancefs.proto import index_pb2, table_pb2
from lancefs.storage import File
from lancefs.table.base_paths import TableFiles
from lancefs.table.bitmaps import read_bitmap
from lancefs.table.manifest import Manifest, read_section
from lancefs.table.messages import plain, uuid_text

INDICES = "_indices"
FRAGMENT_REUSE = "FragmentReuse"
MEM_WAL = "MemWal"

# One row a segment of an index.
INDEX_TABLE = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        ("type", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("field_ids", pa.list_(pa.int32())),
        ("dataset_version", pa.int64()),
        ("index_version", pa.int32()),
        ("fragment_ids", pa.list_(pa.int64())),
        ("uncovered_rows", pa.int64()),
        ("files", pa.list_(pa.struct([("path", pa.string()), ("size_bytes", pa.int64())]))),
        ("size_bytes", pa.int64()),
        ("created_at", pa.timestamp("us", tz="UTC")),
        ("is_system", pa.bool_()),
        ("details", pa.string()),
    ]
)

_SUFFIXES = ("IndexDetails", "Details")
_DETAILS: Mapping[str, type[Message]] = {
    name.lower(): message
    for source in (index_pb2, table_pb2)
    for name, message in vars(source).items()
    if name.endswith("Details")
}
# A file that only one kind of index has, for releases that did not say the kind.
_TELLING_FILES = {
    "page_lookup.lance": "BTree",
    "bitmap_page_lookup.lance": "Bitmap",
    "tokens.lance": "Inverted",
    "ngram_postings.lance": "NGram",
    "zonemap.lance": "ZoneMap",
    "bloomfilter.lance": "BloomFilter",
    "index.idx": "Vector",
}
# No index covers as many fragments. Their ids have no such bound: they grow with every write.
_MOST_FRAGMENTS = 2**24
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of an index: its path below the index's directory, and its size in bytes."""

    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Index:
    """A segment of an index.

    Attributes:
        name: Of the index; its segments share it.
        uuid: Of the segment, and the name of its directory below `_indices/`.
        type: As Lance names it: `BTree`, `Bitmap`, `Inverted`, `IVF_PQ`, …; None where neither the
            writer nor the files tell.
        field_ids: The fields that it is over.
        columns: Their names, those around them first: `a.b`; ids of fields that are gone.
        covering: Names of columns whose values it also holds.
        dataset_version: The version of the table that it was made from.
        index_version: The version of its own format.
        fragment_ids: The fragments that it covers; None where the writer did not say.
        files: Its files.
        created_at: When, in UTC; None where the writer did not say.
        base_id: The base path that it lies below; None for the table's own directory.
        details: What else the writer says of it, under the names of the format.
        metadata: Notes.
    """

    name: str
    uuid: str
    type: str | None
    field_ids: tuple[int, ...]
    columns: tuple[str, ...]
    covering: tuple[str, ...]
    dataset_version: int
    index_version: int | None
    fragment_ids: frozenset[int] | None
    files: tuple[IndexFile, ...]
    created_at: datetime | None
    base_id: int | None
    details: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_system(self) -> bool:
        """Whether it is one of the format's own, which no user made."""
        return self.type in (FRAGMENT_REUSE, MEM_WAL)

    @property
    def size(self) -> int | None:
        """Of all its files, in bytes; None where that of one is not known."""
        sizes = [file.size for file in self.files]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


def read_indices(file: File, manifest: Manifest, files: TableFiles) -> list[Index]:
    """Read what a version says of its indices.

    One read; and a listing for each index of releases that did not record its files.

    Args:
        file: The manifest file.
        manifest: What it says.
        files: Finds the files of the version.

    Raises:
        MissingFile: The manifest file, or one with the details of an index, is gone.
        CorruptFile: One of them is damaged.
    """
    if manifest.index_section is None:
        return []
    names = dict(_paths(manifest.fields))
    with locating(file.url, "indices"):
        section = table_pb2.IndexSection()
        _parse(section, read_section(file, manifest.index_section))
        return [_index(message, names, files) for message in section.indices]


def uncovered_rows(indices: Sequence[Index], manifest: Manifest) -> dict[str, int | None]:
    """Count the rows that are in none of the fragments that each index covers.

    Args:
        indices: All of the version.
        manifest: Of the version.

    Returns:
        The count by the name of the index; None where it, or the rows, cannot be told. The format's
        own indices are left out.
    """
    moves = [move for index in indices for move in _moves(index)]
    counts: dict[str, int | None] = {}
    for name in dict.fromkeys(index.name for index in indices if not index.is_system):
        covered: set[int] = set()
        known = [index.fragment_ids for index in indices if index.name == name]
        for fragment_ids in known:
            covered |= fragment_ids or set()
        for sources, destinations in moves:
            if sources and covered >= sources:
                covered |= destinations
        rows = [one.num_rows for one in manifest.fragments if one.id not in covered]
        told = [count for count in rows if count is not None]
        is_known = None not in known and len(told) == len(rows)
        counts[name] = sum(told) if is_known else None
    return counts


def index_table(indices: Sequence[Index], manifest: Manifest) -> pa.Table:
    """Return indices as a table of the schema `INDEX_TABLE`.

    Args:
        indices: All of a version.
        manifest: Of the version.
    """
    uncovered = uncovered_rows(indices, manifest)
    rows = [
        {
            "name": index.name,
            "uuid": index.uuid,
            "type": index.type,
            "columns": list(index.columns),
            "field_ids": list(index.field_ids),
            "dataset_version": index.dataset_version,
            "index_version": index.index_version,
            "fragment_ids": None if index.fragment_ids is None else sorted(index.fragment_ids),
            "uncovered_rows": uncovered.get(index.name),
            "files": [{"path": file.path, "size_bytes": file.size} for file in index.files],
            "size_bytes": index.size,
            "created_at": index.created_at,
            "is_system": index.is_system,
            "details": json.dumps(index.details, ensure_ascii=False),
        }
        for index in indices
    ]
    return pa.Table.from_pylist(rows, schema=INDEX_TABLE)


def _index(message: table_pb2.IndexMetadata, names: Mapping[int, str], files: TableFiles) -> Index:
    kind, details = _details(message.index_details, files)
    covering = set(message.covering_fields)
    index = Index(
        name=message.name,
        uuid=uuid_text(message.uuid.uuid),
        type=kind,
        field_ids=tuple(one for one in message.fields if one not in covering),
        columns=_named(message.fields, names, covering),
        covering=_named(message.covering_fields, names),
        dataset_version=message.dataset_version,
        index_version=message.index_version if message.HasField("index_version") else None,
        fragment_ids=_fragment_ids(message.fragment_bitmap),
        files=tuple(IndexFile(one.path, one.size_bytes) for one in message.files),
        created_at=_at(message.created_at) if message.HasField("created_at") else None,
        base_id=message.base_id if message.HasField("base_id") else None,
        details=details,
        metadata=dict(message.metadata),
    )
    return index if index.files or index.is_system else _listed(index, files)


def _fragment_ids(bitmap: bytes) -> frozenset[int] | None:
    """Return the ids of the fragments that an index covers; None where it does not say."""
    return frozenset(read_bitmap(bitmap, 2**32, _MOST_FRAGMENTS).tolist()) if bitmap else None


def _details(message: AnyMessage, files: TableFiles) -> tuple[str | None, dict[str, Any]]:
    """Return the kind of an index, and what its writer says of it."""
    name = message.type_url.rpartition("/")[2].rpartition(".")[2]
    kind = next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name) or None
    known = _DETAILS.get(name.lower())
    if known is None:
        return kind, {}
    details = known()
    _parse(details, message.value)
    if isinstance(details, index_pb2.VectorIndexDetails):
        return _vector_kind(details), plain(details)
    if isinstance(details, table_pb2.FragmentReuseIndexDetails):
        return kind, plain(_reuse_content(details, files))
    return kind, plain(details)


def _vector_kind(details: index_pb2.VectorIndexDetails) -> str:
    compression = details.WhichOneof("compression")
    if compression is None:
        return "Vector"
    graph = "_HNSW" if details.HasField("hnsw_index_config") else ""
    return f"IVF{graph}_{compression.upper()}"


def _reuse_content(
    details: table_pb2.FragmentReuseIndexDetails, files: TableFiles
) -> table_pb2.FragmentReuseIndexDetails.InlineContent:
    """Return the content of a fragment reuse index, which a large one has in a file."""
    if details.WhichOneof("content") != "external":
        return details.inline
    where = details.external
    file = files.file("", where.path)
    content = table_pb2.FragmentReuseIndexDetails.InlineContent()
    with locating(file.url):
        _parse(content, file.read([(where.offset, where.offset + where.size)])[0].tobytes())
    return content


def _moves(index: Index) -> Iterator[tuple[set[int], set[int]]]:
    """Yield the fragments that compactions replaced, oldest first, and those in their place."""
    if index.type != FRAGMENT_REUSE:
        return
    for version in index.details.get("legacy_versions", ()):
        for group in version.get("groups", ()):
            yield _ids(group, "old_fragments"), _ids(group, "new_fragments")
    for transition in index.details.get("transitions", ()):
        yield _ids(transition, "sources"), _ids(transition, "destinations")


def _ids(group: Mapping[str, Any], key: str) -> set[int]:
    return {digest.get("id", 0) for digest in group.get(key, ())}


def _listed(index: Index, files: TableFiles) -> Index:
    """Look up the files of an index, and its kind where they tell it."""
    first = files.file(INDICES, f"{index.uuid}/index", index.base_id)
    entries = first.store.entries(first.path.rpartition("/")[0])
    sizes = {name: info.get("size") for name, info in entries if info.get("type") != "directory"}
    kind = index.type or next(
        (_TELLING_FILES[name] for name in sizes if name in _TELLING_FILES), None
    )
    found = [
        IndexFile(name, size if isinstance(size, int) else None) for name, size in sizes.items()
    ]
    return replace(index, files=tuple(sorted(found, key=lambda one: one.path)), type=kind)


def _named(
    ids: Sequence[int], names: Mapping[int, str], without: Collection[int] = ()
) -> tuple[str, ...]:
    return tuple(names.get(one, str(one)) for one in ids if one not in without)


def _paths(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[int, str]]:
    for one in fields:
        yield one.id, prefix + one.name
        yield from _paths(one.children, f"{prefix}{one.name}.")


def _parse(message: Message, data: bytes) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptFile(f"the message does not decode: {error}") from error


def _at(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise CorruptFile(f"created {milliseconds} ms after 1970") from error
