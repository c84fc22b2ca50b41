"""A version of a table with the unmerged generations of its write-ahead log (MemWAL).

Of all rows with the same primary key only one is visible: the last row of the highest generation,
or the row of the table where no generation has the key. A row may be a tombstone, which deletes its
key. Rows that are not visible count as deleted, so that a fresh table is a sequence of fragments
like any other: the fragments of the table, then the fragments of the generations.

Format page: MemTable and WAL, section "LSM Tree Merging Read" (`docs/src/format/table/mem_wal.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.datafile.fields import Field
from lancefs.errors import (
    CorruptFile,
    MissingFile,
    NotALanceTable,
    UnsupportedFeature,
    locating,
)
from lancefs.forks import cached_property
from lancefs.storage import Store
from lancefs.table.base_paths import BaseRules, confine
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import REPLACED_FIELD, Fragment
from lancefs.table.manifest import Manifest
from lancefs.table.mem_wal import Generation
from lancefs.table.open_version import OpenVersion, check_committed
from lancefs.table.refs import Ref, Resolved, resolve
from lancefs.table.schema import primary_key, with_paths
from lancefs.table.versions import latest
from lancefs.threads import in_threads

if TYPE_CHECKING:
    import fsspec

_TOMBSTONE = "_tombstone"
# Rows of the table whose keys are decoded at once, and the number of threads that do it.
_ROWS_AT_ONCE = 512 * 1024
_THREADS = 4

# Types whose values Arrow does not compare; Lance takes none of them for a key either.
_NO_KEYS = (pa.types.is_nested, pa.types.is_dictionary, pa.types.is_float16)

# The columns of a primary key, all of the same length.
_Columns = Sequence[pa.Array]


class FreshVersion(OpenVersion):
    """The newest version of a table, with rows that writers have flushed and nobody merged yet.

    Args:
        resolved: Where the version is.
        generations: The generations whose rows are added.
        rules: How far base paths are followed.
        manifest: The manifest of the version; read from its file by default.
        max_memory: Bytes that one read may expand to; None for the default limit.
    """

    is_fresh = True

    def __init__(
        self,
        resolved: Resolved,
        generations: Sequence[Generation],
        rules: BaseRules | None,
        manifest: Manifest | None = None,
        max_memory: int | None = None,
    ) -> None:
        super().__init__(resolved, rules, manifest, max_memory)
        self.generations = tuple(generations)

    def __reduce__(self) -> tuple[Any, ...]:
        root = self.resolved.root
        arguments = root.fs, root.root, self.ref, self.generations, self.rules, self.max_memory
        return _reopen, (*arguments, self.manifest.timestamp)

    @property
    def readers(self) -> Sequence[FragmentReader]:
        """Readers of the fragments of the table and of the generations, for visible rows."""
        return self._fresh_readers

    @cached_property
    def _fresh_readers(self) -> Sequence[FragmentReader]:
        if not self.generations:
            return self.base_readers
        store, limits = self.resolved.store, (self.rules, self.max_memory)
        return read_fresh(self.base_readers, self.manifest, self.generations, store, *limits)

    @property
    def num_rows(self) -> int:
        """Number of visible rows; the keys of the table are read for it."""
        return sum(reader.num_rows for reader in self.readers)


class ShadowedFragmentReader(FragmentReader):
    """Reads a fragment of which some live rows are hidden by newer rows.

    Args:
        reader: A reader of the fragment.
        fragment: The fragment, reduced to the columns of the table.
        fields: The columns of the table.
        hidden: Offsets of the hidden rows.
    """

    def __init__(
        self,
        reader: FragmentReader,
        fragment: Fragment,
        fields: Sequence[Field],
        hidden: Ints,
    ) -> None:
        super().__init__(reader.files, fragment, fields)
        self._hidden = np.union1d(reader.deleted, hidden)

    @property
    def deleted(self) -> Ints:
        """Offsets of the deleted and hidden rows, ascending."""
        return self._hidden

    @property
    def num_rows(self) -> int:
        """Number of visible rows."""
        return self.physical_rows - len(self._hidden)


@dataclass(frozen=True, slots=True)
class _KeyedRows:
    """The live rows of a generation's fragment, last row first, with their keys."""

    reader: FragmentReader
    fragment: Fragment  # reduced to the columns of the table
    offsets: Ints  # of the live rows, descending
    keys: _Columns
    tombstones: Mask


def read_fresh(
    base: Sequence[FragmentReader],
    manifest: Manifest,
    generations: Sequence[Generation],
    store: Store,
    rules: BaseRules | None = None,
    max_memory: int | None = None,
) -> list[FragmentReader]:
    """Return readers of all fragments of a fresh table, for the visible rows.

    Only the primary keys of the table and of the generations are read.

    Args:
        base: Readers of the table's fragments.
        manifest: The manifest of the table's version.
        generations: The unmerged generations.
        store: The directory of the table, or of the branch.
        rules: How far base paths are followed.
        max_memory: Bytes that one read may expand to; None for the default limit.

    Raises:
        MissingFile: A generation was merged and removed in the meantime.
        CorruptFile: A generation is damaged.
        UnsupportedFeature: The columns of the table have changed since a generation was flushed, or
            its key cannot be compared.
    """
    fields = manifest.fields
    key = _comparable_key(fields)
    newest_first = sorted(generations, key=lambda one: (one.number, one.shard), reverse=True)
    tables = in_threads(
        lambda one: _open(store, one, fields, key, rules, max_memory),
        newest_first,
        _THREADS,
        "lancefs-fresh",
    )
    rows = [one for table in tables for one in table]
    keys = _Keys(rows)
    counting = keys.first if key else np.ones(keys.total, np.bool_)
    fresh = _visible_readers(rows, counting, fields)
    if not key or not keys.total:
        return [*base, *fresh]
    steps = [(reader, step) for reader in base for step in _row_ranges(reader)]
    found = in_threads(
        lambda one: _shadowed_rows(*one, key, keys), steps, _THREADS, "lancefs-fresh"
    )
    hidden: dict[int, list[Ints]] = {}
    for (reader, _), offsets in zip(steps, found, strict=True):
        hidden.setdefault(reader.fragment.id, []).append(offsets)
    replaced = {number: np.concatenate(parts) for number, parts in hidden.items()}
    return [
        ShadowedFragmentReader(reader, reader.fragment, fields, replaced[reader.fragment.id])
        if len(replaced.get(reader.fragment.id, ()))
        else reader
        for reader in base
    ] + fresh


def _comparable_key(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the columns of the primary key, whose values Arrow must be able to compare."""
    key = primary_key(fields)
    if not {one.id for one in key} <= {one.id for one in fields}:
        raise UnsupportedFeature("a write-ahead log of a table whose key lies in structs")
    for one in key:
        if any(is_kind(one.storage_type) for is_kind in _NO_KEYS):
            raise UnsupportedFeature(
                f"a write-ahead log of a table whose key is of {one.storage_type}: {one.name}"
            )
    return key


class _Keys:
    """The primary keys of all rows of the generations, newest row first.

    Args:
        rows: The rows of all fragments of all generations, newest first.
    """

    def __init__(self, rows: Sequence[_KeyedRows]) -> None:
        self.total = sum(len(one.offsets) for one in rows)
        self._levels: list[tuple[pa.Array, Ints]] = []
        parts = zip(*(one.keys for one in rows), strict=True)
        columns = [pa.concat_arrays(arrays) for arrays in parts]
        codes = np.zeros(self.total, np.int64)
        for column in columns:
            values = pc.unique(column)
            codes = codes * len(values) + pc.index_in(column, value_set=values).to_numpy()
            # Codes are renumbered, so that they do not grow with the number of key columns.
            known, codes = np.unique(codes, return_inverse=True)
            self._levels.append((values, known))
        self.first = np.zeros(self.total, np.bool_)
        self.first[np.unique(codes, return_index=True)[1]] = True

    def contain(self, columns: _Columns) -> Mask:
        """Return a mask of the rows whose key is among these keys."""
        codes = np.zeros(len(columns[0]), np.int64)
        held = np.ones(len(codes), np.bool_)
        for column, (values, known) in zip(columns, self._levels, strict=True):
            index = pc.index_in(column, value_set=values)
            held &= index.is_valid().to_numpy(zero_copy_only=False)
            codes = codes * len(values) + pc.fill_null(index, 0).to_numpy()
            place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
            held &= known[place] == codes
            codes = place
        return held


def _open(
    store: Store,
    generation: Generation,
    fields: Sequence[Field],
    key: Sequence[Field],
    rules: BaseRules | None,
    max_memory: int | None,
) -> list[_KeyedRows]:
    """Open a generation and read the keys of its rows, last fragment first."""
    where = store.below(generation.path)
    try:
        file = latest(where)
    except NotALanceTable as error:
        raise MissingFile(
            f"{where.url()}: the generation is gone; once it is merged into the table, its writer "
            "may remove it: open the table again"
        ) from error
    version = OpenVersion(Resolved(where, file, None, where), rules, max_memory=max_memory)
    with locating(where.url()):
        tombstone = _check_columns(version.fields, fields)
        readers = version.readers
        return [
            _read_keys(readers[place], key, tombstone) for place in reversed(range(len(readers)))
        ]


def _read_keys(reader: FragmentReader, key: Sequence[Field], tombstone: Field | None) -> _KeyedRows:
    total = reader.physical_rows
    offsets = reader.live_offsets()[::-1]
    place = to_arrow_numbers(offsets)
    everything = [(0, total)] if total else []
    keys = [column.take(place) for column in reader.read(key, everything)]
    if tombstone is None:
        return _KeyedRows(reader, reader.fragment, offsets, keys, np.zeros(len(offsets), np.bool_))
    (dead,) = reader.read([tombstone], everything)
    mask = pc.fill_null(dead, False).to_numpy(zero_copy_only=False)[offsets]
    return _KeyedRows(reader, _without(reader.fragment, tombstone.id), offsets, keys, mask)


def _without(fragment: Fragment, field_id: int) -> Fragment:
    """Return a fragment without a field, whose id the table may have reused."""
    files = [
        file._replace(
            fields=tuple(REPLACED_FIELD if one == field_id else one for one in file.fields)
        )
        for file in fragment.files
    ]
    return fragment._replace(files=tuple(files))


def _visible_readers(
    rows: Sequence[_KeyedRows], counting: Mask, fields: Sequence[Field]
) -> list[FragmentReader]:
    """Return readers of the visible rows of the generations' fragments, oldest first."""
    readers: list[FragmentReader] = []
    start = 0
    for one in rows:
        counts = counting[start : start + len(one.offsets)] & ~one.tombstones
        readers.append(
            ShadowedFragmentReader(one.reader, one.fragment, fields, one.offsets[~counts])
        )
        start += len(one.offsets)
    return readers[::-1]


def _shadowed_rows(
    reader: FragmentReader, rows: RowRange, key: Sequence[Field], keys: _Keys
) -> Ints:
    """Return the offsets of rows of the table that a generation replaces or deletes."""
    return np.flatnonzero(keys.contain(reader.read(key, [rows]))) + rows[0]


def _row_ranges(reader: FragmentReader) -> Iterator[RowRange]:
    total = reader.physical_rows
    for start in range(0, total, _ROWS_AT_ONCE):
        yield start, min(start + _ROWS_AT_ONCE, total)


def _check_columns(held: Sequence[Field], fields: Sequence[Field]) -> Field | None:
    """Check that a generation has the columns of the table; return its tombstone column.

    Columns are matched by field id. A column that the table dropped is skipped; a column that was
    added since the flush is null. A column that was replaced by one of another type cannot be
    matched: its values have a field id that the table no longer knows.

    Raises:
        CorruptFile: The tombstones are not booleans.
        UnsupportedFeature: A column is another one than that of the table.
    """
    named = dict(with_paths(held))
    tombstone = named.pop(_TOMBSTONE, None)
    if tombstone is not None and tombstone.logical_type != "bool":
        raise CorruptFile(f"{_TOMBSTONE} is {tombstone.logical_type}; bool was expected")
    ids = {one.id: one for one in named.values()}
    for path, one in with_paths(fields):
        same = ids.get(one.id, named.get(path))
        if same is not None and (same.id, same.logical_type) != (one.id, one.logical_type):
            raise UnsupportedFeature(
                f"a generation whose columns have changed since: {path!r} is {one.logical_type} "
                f"(field {one.id}) and was {same.logical_type} (field {same.id}); it can be read "
                "when it is merged into the table"
            )
    return tombstone


def _reopen(
    fs: fsspec.AbstractFileSystem,
    path: str,
    ref: Ref,
    generations: Sequence[Generation],
    rules: BaseRules | None,
    max_memory: int | None,
    committed: datetime,
) -> FreshVersion:
    """Open the version that was pickled."""
    where = resolve(confine(Store(fs, path), rules), ref)
    version = FreshVersion(where, generations, rules, max_memory=max_memory)
    check_committed(version, committed)
    return version
