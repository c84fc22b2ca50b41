"""A version of a table with the generations of its write-ahead log that it does not hold yet.

Of rows with the same primary key one counts: that of the highest generation, in there the last one;
the rows of the table count least. A row may say that its key is deleted. What does not count is as
good as deleted, so that a fresh table is a sequence of fragments like any other: those of the
table, then those of the generations.

Format page: MemTable and WAL, section "LSM Tree Merging Read" (`docs/src/format/table/mem_wal.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.datafile.fields import Field
from lancefs.errors import (
    MissingFile,
    NotALanceTable,
    UnsupportedFeature,
    locating,
)
from lancefs.storage import Store
from lancefs.table.base_paths import BaseRules, TableFiles
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import FragmentReaders
from lancefs.table.fragments import Fragment
from lancefs.table.manifest import Manifest, read_manifest
from lancefs.table.mem_wal import Generation
from lancefs.table.schema import primary_key
from lancefs.table.versions import latest
from lancefs.threads import in_threads

_TOMBSTONE = "_tombstone"
# In place of the id of a field, for a reader to pass over it.
_GONE = -2
# Rows of the table whose keys are read at a time, and by how many threads.
_STEP = 512 * 1024
_THREADS = 4

# The columns of a key: an array each, of the same length.
_Columns = Sequence[pa.Array]


class Covered(FragmentReader):
    """Reads a fragment of which some rows do not count, besides the deleted ones.

    Args:
        reader: Of the fragment.
        fragment: The same, as far as it holds columns of the table.
        fields: The columns of the table.
        hidden: Offsets of the rows that do not count.
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
        """The offsets of the rows that do not count, ascending."""
        return self._hidden

    @property
    def num_rows(self) -> int:
        """Rows that count."""
        return self.physical_rows - len(self._hidden)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The keys of the rows of a generation's fragment."""

    reader: FragmentReader
    fragment: Fragment  # as far as it holds columns of the table
    offsets: Ints  # of the rows that are not deleted, the last one first
    keys: _Columns
    tombstones: Mask


def read_fresh(
    base: Sequence[FragmentReader],
    manifest: Manifest,
    generations: Sequence[Generation],
    store: Store,
    rules: BaseRules | None = None,
) -> list[FragmentReader]:
    """Return readers of all fragments of a fresh table, with the rows that count.

    The keys of the table and of the generations are read, and nothing else.

    Args:
        base: Readers of the table's fragments.
        manifest: Of the version of the table.
        generations: Those that it does not hold.
        store: The directory of the table, or of the branch.
        rules: Which base paths are followed.

    Raises:
        MissingFile: A generation was merged and removed in the meantime.
        CorruptFile: A generation is damaged.
        UnsupportedFeature: The columns of the table have changed since a generation was flushed.
    """
    fields = manifest.fields
    key = primary_key(fields)
    if not {one.id for one in key} <= {one.id for one in fields}:
        raise UnsupportedFeature("a write-ahead log of a table whose key lies in structs")
    newest_first = sorted(generations, key=lambda one: (one.number, one.shard), reverse=True)
    tables = in_threads(
        lambda one: _open(store, one, fields, key, rules), newest_first, _THREADS, "lancefs-fresh"
    )
    rows = [one for table in tables for one in table]
    keys = _Keys(rows)
    counting = keys.first if key else np.ones(keys.total, np.bool_)
    fresh = _covered(rows, counting, fields)
    if not key or not keys.total:
        return [*base, *fresh]
    steps = [(reader, step) for reader in base for step in _steps(reader)]
    found = in_threads(lambda one: _replaced(*one, key, keys), steps, _THREADS, "lancefs-fresh")
    hidden: dict[int, list[Ints]] = {}
    for (reader, _), offsets in zip(steps, found, strict=True):
        hidden.setdefault(reader.fragment.id, []).append(offsets)
    replaced = {number: np.concatenate(parts) for number, parts in hidden.items()}
    return [
        Covered(reader, reader.fragment, fields, replaced[reader.fragment.id])
        if len(replaced.get(reader.fragment.id, ()))
        else reader
        for reader in base
    ] + fresh


class _Keys:
    """The keys of rows of generations, newest first; which of them are equal.

    Args:
        rows: Of all fragments of all generations, newest first.
    """

    def __init__(self, rows: Sequence[_Rows]) -> None:
        self.total = sum(len(one.offsets) for one in rows)
        self._levels: list[tuple[pa.Array, Ints]] = []
        parts = zip(*(one.keys for one in rows), strict=True)
        columns = [pa.concat_arrays(arrays) for arrays in parts]
        codes = np.zeros(self.total, np.int64)
        for column in columns:
            values = pc.unique(column)
            codes = codes * len(values) + pc.index_in(column, value_set=values).to_numpy()
            # Counted anew, so that the numbers do not grow with the number of columns.
            known, codes = np.unique(codes, return_inverse=True)
            self._levels.append((values, known))
        self.first = np.zeros(self.total, np.bool_)
        self.first[np.unique(codes, return_index=True)[1]] = True

    def contain(self, columns: _Columns) -> Mask:
        """Tell which rows of others have a key that is here."""
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
) -> list[_Rows]:
    """Open a generation, and read the keys of its rows, the fragments from the last one on."""
    where = Store(store.fs, store.full(generation.path))
    try:
        file = latest(where)
    except NotALanceTable as error:
        raise MissingFile(
            f"{where.url()}: the generation is gone; once it is merged into the table, its writer "
            "may remove it: open the table again"
        ) from error
    manifest = read_manifest(where.file(file.path, file.size))
    with locating(where.url()):
        tombstone = _check_columns(manifest.fields, fields)
        files = TableFiles(where, manifest.base_paths, rules)
        readers = FragmentReaders(files, manifest.fragments, manifest.fields)
        return [_rows(readers[place], key, tombstone) for place in reversed(range(len(readers)))]


def _rows(reader: FragmentReader, key: Sequence[Field], tombstone: Field | None) -> _Rows:
    total = reader.physical_rows
    offsets = np.delete(np.arange(total), reader.deleted)[::-1]
    place = to_arrow_numbers(offsets)
    everything = [(0, total)] if total else []
    keys = [column.take(place) for column in reader.read(key, everything)]
    if tombstone is None:
        return _Rows(reader, reader.fragment, offsets, keys, np.zeros(len(offsets), np.bool_))
    (dead,) = reader.read([tombstone], everything)
    mask = pc.fill_null(dead, False).to_numpy(zero_copy_only=False)[offsets]
    return _Rows(reader, _without(reader.fragment, tombstone.id), offsets, keys, mask)


def _without(fragment: Fragment, field_id: int) -> Fragment:
    """Return a fragment without a field, whose id the table may have given to another one."""
    files = [
        file._replace(fields=tuple(_GONE if one == field_id else one for one in file.fields))
        for file in fragment.files
    ]
    return fragment._replace(files=tuple(files))


def _covered(
    rows: Sequence[_Rows], counting: Mask, fields: Sequence[Field]
) -> list[FragmentReader]:
    """Return readers of the fragments of generations, oldest first, of the rows that count."""
    readers: list[FragmentReader] = []
    start = 0
    for one in rows:
        counts = counting[start : start + len(one.offsets)] & ~one.tombstones
        readers.append(Covered(one.reader, one.fragment, fields, one.offsets[~counts]))
        start += len(one.offsets)
    return readers[::-1]


def _replaced(reader: FragmentReader, rows: RowRange, key: Sequence[Field], keys: _Keys) -> Ints:
    """Return the offsets of rows of the table whose keys are in a generation."""
    return np.flatnonzero(keys.contain(reader.read(key, [rows]))) + rows[0]


def _steps(reader: FragmentReader) -> Iterator[RowRange]:
    total = reader.physical_rows
    for start in range(0, total, _STEP):
        yield start, min(start + _STEP, total)


def _check_columns(held: Sequence[Field], fields: Sequence[Field]) -> Field | None:
    """Check that a generation's columns are those of the table; return what marks deleted keys.

    It was flushed with the columns of its time, and ids tell which are the same. One that the table
    lacks is passed over, one that was added since is null. But a column that was made anew, for
    another type, has its values here under an id that the table knows no more.
    """
    named = dict(_named(held))
    tombstone = named.pop(_TOMBSTONE, None)
    ids = {one.id: one for one in named.values()}
    for path, one in _named(fields):
        same = ids.get(one.id, named.get(path))
        if same is not None and (same.id, same.logical_type) != (one.id, one.logical_type):
            raise UnsupportedFeature(
                f"a generation whose columns have changed since: {path!r} is {one.logical_type} "
                f"(field {one.id}) and was {same.logical_type} (field {same.id}); it can be read "
                "when it is merged into the table"
            )
    return tombstone


def _named(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[str, Field]]:
    for one in fields:
        yield prefix + one.name, one
        yield from _named(one.children, f"{prefix}{one.name}.")
