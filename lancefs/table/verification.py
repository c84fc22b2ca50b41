"""Verifying a version: every page of every fragment decodes, and agrees with the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field
from lancefs.errors import LanceError
from lancefs.table.base_paths import TableFiles
from lancefs.table.batch_rows import batch_rows_for
from lancefs.table.deletions import read_deletions
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import DataFile, Fragment

# Problems that are told of one fragment: a damaged one may have one in each column.
_MOST = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong.

    Attributes:
        fragment: The id of the fragment.
        place: The column, or what else.
        kind: The class of the error.
        message: What is wrong: file, offset, what was expected.
    """

    fragment: int
    place: str
    kind: str
    message: str


@dataclass(slots=True)
class Checked:
    """What was verified of a fragment.

    Attributes:
        fragment: Its id.
        rows: Deleted ones included.
        deleted: Of them.
        values: That were decoded, in all columns.
        file_bytes: Of its data files.
        problems: What is wrong; none where all is well.
    """

    fragment: int
    rows: int = 0
    deleted: int = 0
    values: int = 0
    file_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


def verify_fragment(files: TableFiles, fragment: Fragment, fields: Sequence[Field]) -> Checked:
    """Decode every value of a fragment, and compare counts and lengths with the manifest.

    Args:
        files: Finds the files of the version.
        fragment: The fragment.
        fields: The columns of the table.
    """
    checked = Checked(fragment.id)
    with _noting(checked, "fragment"):
        reader = FragmentReader(files, fragment, fields)
        checked.rows = reader.physical_rows
        for data_file in fragment.files:
            with _noting(checked, data_file.path):
                _check_file(checked, reader, data_file)
        with _noting(checked, "deletions"):
            checked.deleted = len(read_deletions(reader.files, fragment, checked.rows))
        for one in fields:
            if len(checked.problems) < _MOST:
                with _noting(checked, one.name):
                    _decode(checked, reader, one, batch_rows_for(fragment, [one.storage_type]))
    return checked


def _check_file(checked: Checked, reader: FragmentReader, data_file: DataFile) -> None:
    """See that a data file is as long as the manifest says, in bytes and in rows."""
    file, held = reader.open_file(data_file)
    actual = int(file.store.fs.size(file.store.full(file.path)))
    checked.file_bytes += actual
    said = data_file.size
    if said not in (None, actual):
        _note(checked, file.url, f"{file.url}: {actual} bytes, the manifest says {said}")
    if held.num_rows != checked.rows:
        message = f"{file.url}: {held.num_rows} rows, the manifest says {checked.rows}"
        _note(checked, file.url, message)


def _decode(checked: Checked, reader: FragmentReader, one: Field, step: int) -> None:
    for start in range(0, checked.rows, step):
        (array,) = reader.read([one], [(start, min(start + step, checked.rows))])
        shown = present(array, one)
        shown.validate(full=True)
        checked.values += len(shown)


def _note(checked: Checked, place: str, message: str, kind: str = "CorruptFile") -> None:
    checked.problems.append(Problem(checked.fragment, place, kind, message))


@contextmanager
def _noting(checked: Checked, place: str) -> Iterator[None]:
    """Note an error that is raised inside as a problem, and go on."""
    try:
        yield
    except (LanceError, pa.ArrowException, OSError) as error:
        _note(checked, place, str(error), type(error).__name__)
