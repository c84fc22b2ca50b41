"""Verification: all pages and row ids of a fragment decode; its counts agree with the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, LanceError
from lancefs.table.batch_rows import batch_rows_for
from lancefs.table.bitmaps import set_of_ids
from lancefs.table.deletions import read_deletions
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import DataFile, Fragment
from lancefs.table.row_metadata import CREATED_AT, LAST_UPDATED_AT, ROW_ID

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from lancefs.table.open_version import OpenVersion

# Columns are decoded until a fragment has this many problems: damage may concern all columns.
_MAX_PROBLEMS = 50
# Row ids that are decoded at once.
_IDS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a fragment.

    Attributes:
        fragment: Id of the fragment.
        place: Name of the column, data file, or part of the fragment.
        kind: Name of the error's class.
        message: Message of the error: file, offset, what was expected.
    """

    fragment: int
    place: str
    kind: str
    message: str


@dataclass(slots=True)
class Checked:
    """The result of verifying a fragment.

    Attributes:
        fragment: Id of the fragment.
        rows: Number of rows, deleted rows included.
        deleted: Number of deleted rows.
        values: Number of decoded values in all columns.
        file_bytes: Size of the data files in bytes.
        problems: The problems that were found.
    """

    fragment: int
    rows: int = 0
    deleted: int = 0
    values: int = 0
    file_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


class Verifier:
    """Verifies fragments of a version, one after the other.

    Args:
        version: The version.
    """

    def __init__(self, version: OpenVersion) -> None:
        self._version = version
        self._ids: BitMap64 | None = None  # stable ids of the live rows of the fragments before

    def verify(self, fragment: Fragment) -> Checked:
        """Decode every value of a fragment, and compare sizes and row counts with the manifest.

        Stable row ids are compared with those of the fragments that were verified before. Errors
        become problems of the result.

        Args:
            fragment: The fragment.
        """
        version, checked = self._version, Checked(fragment.id)
        with _recording(checked, "fragment"):
            reader = FragmentReader(version.files, fragment, version.fields)
            checked.rows = reader.physical_rows
            for data_file in fragment.files:
                with _recording(checked, data_file.path):
                    _check_file(checked, reader, data_file)
            with _recording(checked, "deletions"):
                checked.deleted = len(read_deletions(reader.files, fragment, checked.rows))
            for column in version.fields:
                if len(checked.problems) < _MAX_PROBLEMS:
                    with _recording(checked, column.name):
                        rows = batch_rows_for(fragment, [column.storage_type])
                        _decode(checked, reader, column, rows)
            if version.row_metadata.is_stable:
                with _recording(checked, ROW_ID.name):
                    self._check_ids(reader)
            for field in (CREATED_AT, LAST_UPDATED_AT):
                with _recording(checked, field.name):
                    version.row_metadata.versions(field, reader)
        return checked

    def _check_ids(self, reader: FragmentReader) -> None:
        """Decode the stable ids of a fragment; each live row has one of its own."""
        from pyroaring import BitMap64

        found = self._ids = BitMap64() if self._ids is None else self._ids
        size, deleted = len(found), reader.deleted
        for start in range(0, reader.physical_rows, _IDS_AT_ONCE):
            end = min(start + _IDS_AT_ONCE, reader.physical_rows)
            first, last = np.searchsorted(deleted, (start, end))
            offsets = np.delete(np.arange(start, end), deleted[first:last] - start)
            found |= set_of_ids(self._version.row_metadata.at(ROW_ID, reader, offsets))
            size += len(offsets)
            if len(found) < size:
                error = CorruptFile(
                    f"two rows have the same stable id; one of them is in fragment "
                    f"{reader.fragment.id}, below row {end}"
                )
                error.path = reader.files.store.url()
                raise error


def _check_file(checked: Checked, reader: FragmentReader, data_file: DataFile) -> None:
    """Compare the size and the rows of a data file with the manifest."""
    file, field_reader = reader.open_file(data_file)
    size = file.store.file(file.path).size  # of now, whatever the manifest says
    checked.file_bytes += size
    if data_file.size not in (None, size):
        message = f"{file.url}: {size} bytes, the manifest says {data_file.size}"
        _record(checked, file.url, message)
    if field_reader.num_rows != checked.rows:
        message = f"{file.url}: {field_reader.num_rows} rows, the manifest says {checked.rows}"
        _record(checked, file.url, message)


def _decode(checked: Checked, reader: FragmentReader, column: Field, batch_rows: int) -> None:
    for start in range(0, checked.rows, batch_rows):
        (array,) = reader.read([column], [(start, min(start + batch_rows, checked.rows))])
        values = present(array, column)
        try:
            values.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFile(f"values that {values.type} does not allow: {error}") from error
        checked.values += len(values)


def _record(checked: Checked, place: str, message: str, kind: str = "CorruptFile") -> None:
    checked.problems.append(Problem(checked.fragment, place, kind, message))


@contextmanager
def _recording(checked: Checked, place: str) -> Iterator[None]:
    """Record an error that is raised inside as a problem, and go on."""
    try:
        yield
    except (LanceError, pa.ArrowException, OSError) as error:
        _record(checked, place, str(error), type(error).__name__)
