"""Rows of a fragment: its fields, out of whichever data files hold them.

A field is found by its id, whatever it was called and wherever it stood when the file was written.
A field that no file holds is null. The members of a struct may lie in different files.

Format page: table format, sections "Fragments" and "Data Evolution"
(`docs/src/format/table/index.md`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import children_of, with_children
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.data_file import FieldReader, open_data_file
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.row_ranges import as_ranges, count_rows
from lancefs.errors import CorruptFile
from lancefs.storage import File, run
from lancefs.table.base_paths import TableFiles
from lancefs.table.deletions import read_deletions
from lancefs.table.fragments import DataFile, Fragment

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.datafile.row_sizes import RowSizes
    from lancefs.table.overlays import Patch

# With more rows, or more bytes of files, a fragment is quicker read alone: its rows are not copied.
_SMALL_ROWS = 32 * 1024
_SMALL_BYTES = 4 * 1024 * 1024
# With no more of both, it does not matter how many bytes its rows have.
_FEW_ROWS = 16 * 1024
_FEW_BYTES = 512 * 1024

# What a data file gave for a field: the field as far as the file holds it, and its values.
Piece = tuple[Field, pa.Array]


class FragmentReader:
    """Reads rows of one fragment; opens its files when they are first needed.

    Args:
        files: Finds the files of the table.
        fragment: The fragment.
        fields: The columns of the table.
    """

    def __init__(self, files: TableFiles, fragment: Fragment, fields: Sequence[Field]) -> None:
        self.files = files
        self.fragment = fragment
        self.fields = tuple(fields)
        self._readers: dict[DataFile, tuple[File, FieldReader]] = {}
        self._deleted: Ints | None = None
        # By the ids of fields.
        self._row_sizes: dict[tuple[int, ...], RowSizes] = {}
        self._with_dictionaries: dict[tuple[int, ...], frozenset[int]] = {}
        self._lock = threading.Lock()

    @property
    def physical_rows(self) -> int:
        """Rows with the deleted ones."""
        if self.fragment.physical_rows is not None:
            return self.fragment.physical_rows
        return self.open_file(self.fragment.files[0])[1].num_rows if self.fragment.files else 0

    @property
    def is_local(self) -> bool:
        """Whether the table is on this machine, so that a read does not wait for a network."""
        return self.files.store.is_local

    @property
    def num_rows(self) -> int:
        """Rows that a reader sees."""
        known = self.fragment.num_rows
        return self.physical_rows - len(self.deleted) if known is None else known

    @property
    def deleted(self) -> Ints:
        """The offsets of the deleted rows, ascending."""
        if self._deleted is None:
            recorded = self.fragment.physical_rows
            rows = None if recorded is not None else self.physical_rows
            self._deleted = read_deletions(self.files, self.fragment, rows)
        return self._deleted

    def offsets(self, rows: Ints) -> Ints:
        """Translate positions among the rows that a reader sees into offsets in the data files.

        Args:
            rows: Positions, each below `num_rows`.
        """
        deleted = self.deleted
        before = deleted - np.arange(len(deleted))  # visible rows before each deleted one
        return rows + np.searchsorted(before, rows, side="right")

    def read(
        self,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        blobs: Blobs = "descriptors",
    ) -> list[pa.Array]:
        """Read rows of several fields, deleted rows included.

        Args:
            fields: Columns of the table, parts or outlines of them; values come as their storage
                types.
            ranges: Offsets of rows, ascending and disjoint.
            blobs: Whether blobs come as descriptors, or as their bytes.

        Raises:
            MissingFile: A data file is gone.
            CorruptFile: A data file is damaged, or does not hold what the manifest says.
            UnsupportedFeature: A data file uses something that this release does not read.
        """
        files, parts = self.fragment.files, pieces_of(fields, self.fragment)
        read = self._read([(files[number], held, ranges) for _, number, held in parts], blobs)
        pieces: list[list[Piece]] = [[] for _ in fields]
        for (position, _, _), piece in zip(parts, read, strict=True):
            pieces[position].append(piece)
        rows = count_rows(ranges)
        shown = _shown(fields, blobs)
        arrays = [
            self._checked(merge(field, found, rows), rows, field)
            for field, found in zip(shown, pieces, strict=True)
        ]
        if not self.fragment.overlays:
            return arrays
        from lancefs.table.overlays import patches

        found = [
            list(patches(self.fragment.overlays, f, ranges, self.physical_rows)) for f in fields
        ]
        return self._overlaid(shown, arrays, found, blobs)

    def row_sizes(self, fields: Sequence[Field]) -> RowSizes | None:
        """Return how many bytes rows of fields have; None where the fragment has few anyway.

        Raises:
            LanceError: As `stored_row_sizes` does.
        """
        is_tiny = self._has_at_most(_FEW_ROWS, _FEW_BYTES)
        return None if is_tiny else self.stored_row_sizes(fields)

    def stored_row_sizes(self, fields: Sequence[Field]) -> RowSizes:
        """Return how many bytes rows of fields have in the data files.

        Args:
            fields: Columns of the table.

        Raises:
            MissingFile: A data file is gone.
            CorruptFile: A data file is damaged.
            UnsupportedFeature: A data file uses something that this release does not read.
        """
        key = tuple(field.id for field in fields)
        if key not in self._row_sizes:
            from lancefs.datafile.row_sizes import FieldSizes, estimated
            from lancefs.table.batch_rows import least_width, varies

            held: dict[int, list[Field]] = {}
            missing = dict(enumerate(fields))
            for position, number, piece in pieces_of(fields, self.fragment):
                held.setdefault(number, []).append(piece)
                missing.pop(position, None)
            opened = {number: self.open_file(self.fragment.files[number]) for number in held}
            nulls = [FieldSizes((), least_width(one.storage_type)) for one in missing.values()]
            sizes = nulls + [
                FieldSizes(columns, least_width(piece.storage_type), varies(piece.storage_type))
                for number, (_, reader) in opened.items()
                for piece, columns in zip(
                    held[number], reader.page_sizes(held[number]), strict=True
                )
            ]
            most = sum(file.size for file, _ in opened.values())
            self._row_sizes[key] = estimated(sizes, self.physical_rows, most)
        return self._row_sizes[key]

    def with_dictionaries(self, fields: Sequence[Field]) -> frozenset[int]:
        """Return the ids of the fields whose pages have dictionaries.

        Raises:
            LanceError: The metadata of the columns cannot be read.
        """
        key = tuple(field.id for field in fields)
        if key not in self._with_dictionaries:
            from lancefs.table.dictionary_columns import dictionary_columns

            found = dictionary_columns(self, fields)
            self._with_dictionaries[key] = frozenset(field.id for field in found)
        return self._with_dictionaries[key]

    @property
    def is_small(self) -> bool:
        """Whether it is best read with others of its kind: it has few rows and few bytes."""
        return self._has_at_most(_SMALL_ROWS, _SMALL_BYTES)

    def _has_at_most(self, rows: int, size: int) -> bool:
        """Whether the manifest says that it has no more rows and bytes of files."""
        recorded, stored = self.fragment.physical_rows, self.fragment.size
        return recorded is not None and stored is not None and recorded <= rows and stored <= size

    def parts(self, ranges: Sequence[RowRange]) -> list[tuple[FragmentReader, Sequence[RowRange]]]:
        """Return ranges of rows as those of each fragment, which is this one."""
        return [(self, ranges)]

    @property
    def touched(self) -> int:
        """About how many bytes of local files are in memory since they were last released."""
        return sum(file.touched for file in self._opened())

    def release(self) -> None:
        """Give back the memory that bytes of local files take which were read; see `File`."""
        for file in self._opened():
            file.release()

    def _opened(self) -> list[File]:
        with self._lock:
            return [file for file, _ in self._readers.values()]

    def _overlaid(
        self,
        fields: Sequence[Field],
        arrays: list[pa.Array],
        found: Sequence[Sequence[Patch]],
        blobs: Blobs,
    ) -> list[pa.Array]:
        """Put the values of overlay files into arrays that were read."""
        from lancefs.table.overlays import apply

        wanted = [
            (patch.overlay.file, patch.field, as_ranges(patch.items))
            for patches_ in found
            for patch in patches_
        ]
        read = iter(self._read(wanted, blobs))
        for position, patches_ in enumerate(found):
            for patch in patches_:
                held, values = next(read)
                patch = replace(patch, field=held)
                arrays[position] = apply(fields[position], arrays[position], patch, values)
        return arrays

    def _read(
        self, wanted: Sequence[tuple[DataFile, Field, Sequence[RowRange]]], blobs: Blobs
    ) -> list[Piece]:
        """Read fields of data files, all in one round of requests; then the bytes of blobs."""
        arrays = self._arrays(wanted)
        pieces = [(held, array) for (_, held, _), array in zip(wanted, arrays, strict=True)]
        if blobs == "descriptors":
            return pieces
        from lancefs.table.blobs import Described, as_bytes, read_blobs

        described = [
            Described(data_file, self.open_file(data_file)[0], held, array)
            for (data_file, held, _), array in zip(wanted, arrays, strict=True)
        ]
        read = read_blobs(self.files, described)
        return [(as_bytes(held), array) for (held, _), array in zip(pieces, read, strict=True)]

    def _arrays(
        self, wanted: Sequence[tuple[DataFile, Field, Sequence[RowRange]]]
    ) -> list[pa.Array]:
        """Read what is wanted of a file in the same rows together."""
        together: dict[tuple[int, int], list[int]] = {}
        for position, (data_file, _, ranges) in enumerate(wanted):
            together.setdefault((id(data_file), id(ranges)), []).append(position)
        steps = []
        for positions in together.values():
            data_file, _, ranges = wanted[positions[0]]
            file, reader = self.open_file(data_file)
            fields = [wanted[position][1] for position in positions]
            steps.append((file, reader.read_all(fields, ranges)))
        found = dict(zip(chain(*together.values()), chain(*run(steps)), strict=True))
        return [found[position] for position in range(len(wanted))]

    def _checked(self, array: pa.Array, rows: int, field: Field) -> pa.Array:
        if len(array) != rows:
            raise CorruptFile(
                f"fragment {self.fragment.id}, {field.name}: {len(array)} rows, expected {rows}"
            )
        return array

    def open_file(self, data_file: DataFile) -> tuple[File, FieldReader]:
        """Return a data file of the fragment and its reader, opened once.

        Raises:
            MissingFile: The file is gone.
            CorruptFile: Its footer is damaged.
            UnsupportedFeature: It is of a format that this release does not read.
        """
        with self._lock:
            if data_file not in self._readers:
                file = self.files.data_file(data_file)
                reader = open_data_file(file, data_file.columns, data_file.is_legacy)
                self._readers[data_file] = file, reader
            return self._readers[data_file]


def pieces_of(fields: Sequence[Field], fragment: Fragment) -> list[tuple[int, int, Field]]:
    """Return which file of a fragment holds what of fields.

    Returns:
        Positions among the fields and among the files, and the field as far as the file holds it.
    """
    files = [_ids(data_file) for data_file in fragment.files]
    return [
        (position, number, pruned)
        for position, field in enumerate(fields)
        for number, ids in enumerate(files)
        if (pruned := field.prune(ids)) is not None
    ]


def _ids(data_file: DataFile) -> Mapping[int, int] | frozenset[int]:
    """The fields that have data in a file."""
    return frozenset(data_file.fields) if data_file.is_legacy else data_file.columns


def _shown(fields: Sequence[Field], blobs: Blobs) -> list[Field]:
    """Return fields as what was read of them is shown."""
    if blobs == "descriptors":
        return list(fields)
    from lancefs.table.blobs import as_bytes

    return [as_bytes(field) for field in fields]


def merge(field: Field, pieces: Sequence[Piece], rows: int) -> pa.Array:
    """Put a field together from what data files hold of it.

    Args:
        field: What is wanted.
        pieces: What each file gave, all of the same rows.
        rows: How many.

    Returns:
        An array of the field's storage type; what no file holds is null.
    """
    if not pieces:
        return pa.nulls(rows, field.storage_type)
    if field.is_leaf or (len(pieces) == 1 and pieces[0][0] == field):
        return pieces[0][1]  # where two files hold a field, Lance reads the first
    found = [
        {child.id: (child, values) for child, values in zip(held.children, below, strict=True)}
        for held, below in ((held, children_of(array)) for held, array in pieces)
    ]
    length = len(next(iter(found[0].values()))[1])  # rows of a struct, items of lists
    children = [
        merge(child, [held[child.id] for held in found if child.id in held], length)
        for child in field.children
    ]
    return with_children(pieces[0][1], field.storage_type, children)
