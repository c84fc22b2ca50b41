"""Indices: their columns, the fragments that they cover, and their size.

A section of the manifest file lists them. An index consists of one or more segments, which share
its name. Two kinds are the format's own: the fragment reuse index says how compactions moved rows
that other indices know by their old addresses, the MemWAL index holds the state of a write-ahead
log. This module describes indices and searches none.

Format page: indices (`docs/src/format/index/index.md` and the pages below it); messages:
`protos/table.proto`, `protos/index.proto`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from lancefs.datafile.buffers import SCAN_MEMORY, expanding, reserve
from lancefs.errors import CorruptFile, locating
from lancefs.proto import index_pb2, table_pb2
from lancefs.storage import File
from lancefs.table.base_paths import TableFiles
from lancefs.table.bitmaps import read_bitmap
from lancefs.table.fragment_table import Fragments
from lancefs.table.fragments import sum_known
from lancefs.table.manifest import Manifest, read_section, reading_sections
from lancefs.table.messages import parse_message, plain, uuid_text
from lancefs.table.schema import with_paths

if TYPE_CHECKING:
    from lancefs.table.open_version import OpenVersion

INDICES = "_indices"
FRAGMENT_REUSE = "FragmentReuse"
MEM_WAL = "MemWal"

# A row for each segment of an index.
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

ReuseContent: TypeAlias = table_pb2.FragmentReuseIndexDetails.InlineContent

_SUFFIXES = ("IndexDetails", "Details")
_DETAILS: Mapping[str, type[Message]] = {
    name.lower(): message
    for source in (index_pb2, table_pb2)
    for name, message in vars(source).items()
    if name.endswith("Details")
}
# Names of files that only one kind of index has, for releases that recorded no kind.
_KIND_OF_FILE = {
    "page_lookup.lance": "BTree",
    "bitmap_page_lookup.lance": "Bitmap",
    "tokens.lance": "Inverted",
    "ngram_postings.lance": "NGram",
    "zonemap.lance": "ZoneMap",
    "bloomfilter.lance": "BloomFilter",
    "index.idx": "Vector",
}
# What the id of a fragment takes in a set, and in a list and the column of a table.
_ID_BYTES = 96
_SHOWN_ID_BYTES = 16
# Most fragments that the indices of a version may list: those that it has, and this many that it
# had before.
_MAX_FRAGMENTS = 2**20
_MOST = 2**63 - 1  # that a column of numbers holds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of an index.

    Attributes:
        path: Path below the directory of the index.
        size: Size in bytes; None if it is not known.
    """

    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Index:
    """A segment of an index.

    Attributes:
        name: Name of the index, the same for all its segments.
        uuid: Id of the segment, and name of its directory below `_indices/`.
        type: Lance's name of the kind: `BTree`, `Bitmap`, `Inverted`, `IVF_PQ`, …; None if neither
            the writer nor the names of the files tell it.
        field_ids: Ids of the indexed fields.
        columns: Paths of the indexed fields, such as `a.b`; the id of a field that is gone.
        covering: Paths of fields whose values the index also holds.
        dataset_version: Version of the table that the index was built from.
        index_version: Version of the index's own format.
        fragment_ids: Fragments that the index covers; None if the writer recorded none.
        files: Files of the segment.
        created_at: Time of creation, in UTC; None if the writer recorded none.
        base_id: Id of the base path that the files lie below; None for the table's own directory.
        details: Further facts that the writer recorded, by the names of the format.
        metadata: Free metadata of the index.
        reuse: What a fragment reuse index says of compactions, with the rows that they moved; None
            for other kinds.
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
    reuse: ReuseContent | None = field(default=None, repr=False)

    @property
    def is_system(self) -> bool:
        """Whether the index is one of the format's own, which no user created."""
        return self.type in (FRAGMENT_REUSE, MEM_WAL)

    @property
    def size(self) -> int | None:
        """Size of all files in bytes; None if the size of a file is not known."""
        return sum_known(file.size for file in self.files)


def indices_of(version: OpenVersion) -> list[Index]:
    """Read the indices of an open version, whose table may have been made anew since.

    Raises:
        MissingFile: As `read_indices` does, or the manifest file is one of another table now.
        CorruptFile: As `read_indices` does.
    """
    file, manifest = version.resolved.manifest, version.manifest
    with reading_sections(file, manifest):
        return read_indices(file, manifest, version.files)


def read_indices(file: File, manifest: Manifest, files: TableFiles) -> list[Index]:
    """Read the indices of a version.

    Takes one read, and a listing for each index whose writer did not record its files.

    Args:
        file: The manifest file.
        manifest: The decoded manifest.
        files: Finds the files of the version.

    Raises:
        MissingFile: The manifest file, or a file with the details of an index, is gone.
        CorruptFile: The manifest file, or a file with details, is damaged.
    """
    if manifest.index_section is None:
        return []
    paths = {field.id: path for path, field in with_paths(manifest.fields)}
    with locating(file.url, "indices"), expanding(files.max_memory, 1, SCAN_MEMORY):
        data = read_section(file, manifest.index_section)
        section = parse_message(table_pb2.IndexSection(), data)
        coverage = _Coverage(manifest, len(section.indices))
        return [_index(message, paths, files, coverage) for message in section.indices]


def uncovered_rows(indices: Sequence[Index], manifest: Manifest) -> dict[str, int | None]:
    """Count the rows in fragments that an index does not cover, for each index.

    Args:
        indices: All indices of the version.
        manifest: The manifest of the version.

    Returns:
        The number of rows by the name of the index; None if the manifest does not record the
        covered fragments or the rows. The format's own indices are left out.
    """
    moves = [move for index in indices for move in _moves(index)]
    live = _live_rows(manifest.fragments)
    counts: dict[str, int | None] = {}
    for name, segments in segments_by_name(indices).items():
        if all(index.is_system for index in segments):
            continue
        covered: set[int] = set()
        coverage = [segment.fragment_ids for segment in segments]
        for fragment_ids in coverage:
            covered |= fragment_ids or set()
        for sources, destinations in moves:
            if sources and covered >= sources:
                covered |= destinations
        counts[name] = None if None in coverage else live.without(covered)
    return counts


class _LiveRows:
    """The live rows of fragments, which are summed up once for all indices.

    Args:
        rows: The rows of each fragment by its id; None where the manifest does not record them.
    """

    def __init__(self, rows: Mapping[int, int | None]) -> None:
        self._rows = rows
        self._all = sum(count or 0 for count in rows.values())
        self._unknown = sum(count is None for count in rows.values())

    def without(self, covered: Collection[int]) -> int | None:
        """Return the rows of the fragments that are not covered; None if they are not known."""
        rows = [self._rows[number] for number in covered if number in self._rows]
        if sum(count is None for count in rows) < self._unknown:
            return None
        return self._all - sum(count or 0 for count in rows)


def _live_rows(fragments: Fragments) -> _LiveRows:
    counts = fragments.row_counts
    if counts is None:
        return _LiveRows({fragment.id: fragment.num_rows for fragment in fragments})
    rows, deleted = counts
    return _LiveRows(dict(zip(fragments.ids.tolist(), (rows - deleted).tolist(), strict=True)))


def segments_by_name(indices: Sequence[Index]) -> dict[str, list[Index]]:
    """Return the segments of each index, by its name."""
    segments: dict[str, list[Index]] = {}
    for index in indices:
        segments.setdefault(index.name, []).append(index)
    return segments


def index_table(indices: Sequence[Index], manifest: Manifest) -> pa.Table:
    """Return indices as a table of the schema `INDEX_TABLE`.

    Args:
        indices: All indices of a version.
        manifest: The manifest of the version.

    Raises:
        CorruptFile: A number of the manifest is beyond all that there are.
    """
    uncovered = uncovered_rows(indices, manifest)
    _check_numbers(indices)
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


def _check_numbers(indices: Sequence[Index]) -> None:
    """Check that the columns of `INDEX_TABLE` hold the numbers of indices, which have no sign."""
    for index in indices:
        size = sum(file.size or 0 for file in index.files)
        for what, number in (("version of the table", index.dataset_version), ("size", size)):
            if number > _MOST:
                raise CorruptFile(f"index {index.name}: its {what} is {number}, beyond 63 bits")


def _index(
    message: table_pb2.IndexMetadata,
    paths: Mapping[int, str],
    files: TableFiles,
    coverage: _Coverage,
) -> Index:
    kind, details, reuse = _details(message.index_details, files)
    covering = set(message.covering_fields)
    index = Index(
        name=message.name,
        uuid=uuid_text(message.uuid.uuid),
        type=kind,
        field_ids=tuple(field_id for field_id in message.fields if field_id not in covering),
        columns=_names(message.fields, paths, covering),
        covering=_names(message.covering_fields, paths),
        dataset_version=message.dataset_version,
        index_version=message.index_version if message.HasField("index_version") else None,
        fragment_ids=coverage.fragment_ids(message.fragment_bitmap),
        files=tuple(IndexFile(file.path, file.size_bytes) for file in message.files),
        created_at=_timestamp(message.created_at) if message.HasField("created_at") else None,
        base_id=message.base_id if message.HasField("base_id") else None,
        details=details,
        metadata=dict(message.metadata),
        reuse=reuse,
    )
    return index if index.files or index.is_system else _with_listed_files(index, files)


class _Coverage:
    """Reads which fragments the indices of a version cover.

    A few bytes of a bitmap can name millions of fragments, so their ids and their number are held
    against what the manifest says. All indices may cover all fragments, of which the manifest tells
    in a few bytes, so that their memory is allowed before.

    Args:
        manifest: The manifest of the version.
        indices: Number of indices.
    """

    def __init__(self, manifest: Manifest, indices: int) -> None:
        fragments = manifest.fragments
        ids = [*fragments.ids, manifest.max_fragment_id or 0]
        self._limit = max(ids) + 1
        self._left = _MAX_FRAGMENTS + len(fragments) * indices
        self._stored = len(fragments.data) // max(indices, 1)  # for each index
        self._known: dict[bytes, frozenset[int]] = {}  # most indices cover the same fragments

    def fragment_ids(self, bitmap: bytes) -> frozenset[int] | None:
        """Return the ids of the fragments that an index covers; None where it does not say.

        Raises:
            CorruptFile: The bitmap is damaged, or names fragments that the table cannot have.
            MemoryLimitExceeded: The indices together name too many.
        """
        if not bitmap:
            return None
        stored = len(bitmap) + self._stored
        known = self._known.get(bitmap)
        if known is None:
            ids = read_bitmap(bitmap, self._limit, self._left)
            reserve(_ID_BYTES * len(ids), stored)
            known = self._known[bitmap] = frozenset(ids.tolist())
        self._left -= len(known)
        reserve(_SHOWN_ID_BYTES * len(known), stored)
        return known


def _details(
    message: AnyMessage, files: TableFiles
) -> tuple[str | None, dict[str, Any], ReuseContent | None]:
    """Return the kind of an index, the details that its writer recorded, and `Index.reuse`."""
    name = message.type_url.rpartition("/")[2].rpartition(".")[2]
    kind = next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name) or None
    message_class = _DETAILS.get(name.lower())
    if message_class is None:
        return kind, {}, None
    details = parse_message(message_class(), message.value)
    if isinstance(details, index_pb2.VectorIndexDetails):
        return _vector_kind(details), plain(details), None
    if isinstance(details, table_pb2.FragmentReuseIndexDetails):
        content = _reuse_content(details, files)
        return kind, plain(content), content
    return kind, plain(details), None


def _vector_kind(details: index_pb2.VectorIndexDetails) -> str:
    compression = details.WhichOneof("compression")
    if compression is None:
        return "Vector"
    graph = "_HNSW" if details.HasField("hnsw_index_config") else ""
    return f"IVF{graph}_{compression.upper()}"


def _reuse_content(details: table_pb2.FragmentReuseIndexDetails, files: TableFiles) -> ReuseContent:
    """Return the content of a fragment reuse index; a large index has it in a file."""
    if details.WhichOneof("content") != "external":
        return details.inline
    where = details.external
    file = files.file("", where.path)
    with locating(file.url):
        data = file.read([(where.offset, where.offset + where.size)])[0].tobytes()
        return parse_message(ReuseContent(), data)


def _moves(index: Index) -> Iterator[tuple[set[int], set[int]]]:
    """Yield (ids of fragments before, ids after) for each compaction, oldest first."""
    if index.type != FRAGMENT_REUSE:
        return
    for version in index.details.get("legacy_versions", ()):
        for group in version.get("groups", ()):
            yield _ids(group, "old_fragments"), _ids(group, "new_fragments")
    for transition in index.details.get("transitions", ()):
        yield _ids(transition, "sources"), _ids(transition, "destinations")


def _ids(group: Mapping[str, Any], key: str) -> set[int]:
    return {fragment.get("id", 0) for fragment in group.get(key, ())}


def _with_listed_files(index: Index, files: TableFiles) -> Index:
    """Complete an index with a listing of its directory: the files, and the kind if unknown."""
    any_file = files.file(INDICES, f"{index.uuid}/index", index.base_id)
    entries = any_file.store.entries(any_file.path.rpartition("/")[0])
    sizes = {name: info.get("size") for name, info in entries if info.get("type") != "directory"}
    kind = index.type or next(
        (_KIND_OF_FILE[name] for name in sizes if name in _KIND_OF_FILE), None
    )
    listed = [
        IndexFile(name, size if isinstance(size, int) else None)
        for name, size in sorted(sizes.items())
    ]
    return replace(index, files=tuple(listed), type=kind)


def _names(
    ids: Sequence[int], paths: Mapping[int, str], without: Collection[int] = ()
) -> tuple[str, ...]:
    return tuple(paths.get(id, str(id)) for id in ids if id not in without)


def _timestamp(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise CorruptFile(
            f"an index was created {milliseconds} ms after 1970, which is no date"
        ) from error
