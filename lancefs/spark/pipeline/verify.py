"""Verifying a version: every page of every fragment decodes, and agrees with the manifest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field
from lancefs.errors import LanceError
from lancefs.spark.options import TableOptions
from lancefs.spark.partitions import batch_rows_for
from lancefs.spark.pinned import OpenVersion, Pinned, open_table, pin
from lancefs.spark.pipeline.jobs import run_pieces
from lancefs.spark.stores import absolute
from lancefs.table.deletions import read_deletions
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.refs import Ref, make_ref

# Problems that one fragment reports: a damaged one may have one in each column.
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


@dataclass(frozen=True, slots=True)
class Report:
    """What was verified, and what is wrong.

    Attributes:
        source: The table.
        version: The version.
        fragments: How many were looked at.
        rows: Of them, deleted ones included.
        deleted: Rows that are deleted.
        values: That were decoded, in all columns.
        file_bytes: Of the data files.
        seconds: It took.
        problems: What is wrong; none where all is well.
    """

    source: str
    version: int
    fragments: int
    rows: int
    deleted: int
    values: int
    file_bytes: int
    seconds: float
    problems: tuple[Problem, ...]

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self) -> str:
        """As a text for programs."""
        return json.dumps({**asdict(self), "good": self.is_good}, indent=1)

    def __str__(self) -> str:
        lines = [
            f"{self.source}@{self.version}: {self.fragments:,} fragments, {self.rows:,} rows "
            f"({self.deleted:,} deleted), {self.values:,} values, {self.file_bytes:,} bytes in "
            f"{self.seconds:.1f} s",
            *(f"  fragment {p.fragment}, {p.place}: {p.kind}: {p.message}" for p in self.problems),
            "all is well" if self.is_good else f"{len(self.problems)} problems",
        ]
        return "\n".join(lines)


def verify(
    spark: SparkSession,
    source: str,
    *,
    ref: Ref | str | int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Decode every value of a version, and compare counts and lengths with the manifest.

    Args:
        spark: Where the work is done.
        source: The table.
        ref: The version; the newest by default.
        storage_options: For fsspec.

    Raises:
        LanceError: The version cannot be opened at all.
    """
    began = time.monotonic()
    table = TableOptions(absolute(source), dict(storage_options or {}))
    version = open_table(table, make_ref(ref=ref))
    number, count = version.manifest.version, len(version.manifest.fragments)
    what = f"verify {table.url}@{number}"
    results = run_pieces(spark, what, count, make_verifier, pin(table, version))
    said = sorted((json.loads(text) for text in results), key=lambda one: int(one["fragment"]))
    return Report(
        source=table.url,
        version=number,
        fragments=len(said),
        rows=sum(one["rows"] for one in said),
        deleted=sum(one["deleted"] for one in said),
        values=sum(one["values"] for one in said),
        file_bytes=sum(one["file_bytes"] for one in said),
        seconds=round(time.monotonic() - began, 3),
        problems=tuple(Problem(**problem) for one in said for problem in one["problems"]),
    )


def make_verifier(pinned: Pinned) -> Callable[[int], str]:
    """Return what a worker does: verify the fragment at a position."""
    version = pinned.open()

    def check(position: int) -> str:
        return json.dumps(_Check(version, position).run())

    return check


class _Check:
    """Verifies one fragment."""

    def __init__(self, version: OpenVersion, position: int) -> None:
        self.files = version.files
        self.fields = version.manifest.fields
        self.fragment = version.manifest.fragments[position]
        self.problems: list[Problem] = []
        self.values = 0

    def run(self) -> dict[str, Any]:
        """Do it, and say what was found."""
        rows = deleted = size = 0
        with self._noting("fragment"):
            reader = FragmentReader(self.files, self.fragment, self.fields)
            rows = reader.physical_rows
            size = self._data_files(reader, rows)
            with self._noting("deletions"):
                deleted = len(read_deletions(self.files, self.fragment, rows))
            for field in self.fields:
                if len(self.problems) < _MOST:
                    with self._noting(field.name):
                        self._column(reader, field, rows)
        return {
            "fragment": self.fragment.id,
            "rows": rows,
            "deleted": deleted,
            "values": self.values,
            "file_bytes": size,
            "problems": [asdict(problem) for problem in self.problems],
        }

    @contextmanager
    def _noting(self, place: str) -> Iterator[None]:
        """Note an error that is raised inside as a problem."""
        try:
            yield
        except (LanceError, pa.ArrowException, OSError) as error:
            self._add(place, type(error).__name__, str(error))

    def _add(self, place: str, kind: str, message: str) -> None:
        self.problems.append(Problem(self.fragment.id, place, kind, message))

    def _data_files(self, reader: FragmentReader, rows: int) -> int:
        """See that each data file is as long as the manifest says, in bytes and in rows."""
        total = 0
        for data_file in self.fragment.files:
            with self._noting(data_file.path):
                file, held = reader.open_file(data_file)
                actual = file.store.fs.size(file.store.full(file.path))
                total += actual
                if data_file.size not in (None, actual):
                    self._add(
                        data_file.path,
                        "CorruptFile",
                        f"{file.url}: {actual} bytes, the manifest says {data_file.size}",
                    )
                if held.num_rows != rows:
                    self._add(
                        data_file.path,
                        "CorruptFile",
                        f"{file.url}: {held.num_rows} rows, the manifest says {rows}",
                    )
        return total

    def _column(self, reader: FragmentReader, field: Field, rows: int) -> None:
        step = batch_rows_for(self.fragment, [field.storage_type])
        for start in range(0, rows, step):
            (array,) = reader.read([field], [(start, min(start + step, rows))])
            shown = present(array, field)
            shown.validate(full=True)
            self.values += len(shown)
