"""Reading back what was written: are the files at a destination those of its manifest?"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from lancefs.spark.pipeline.destination import Part, open_materialized
from lancefs.spark.pipeline.jobs import run_pieces
from lancefs.spark.pipeline.output_files import Files


@dataclass(frozen=True, slots=True)
class OutputProblem:
    """A file that is not what was written.

    Attributes:
        path: Below the destination.
        message: What is wrong with it.
    """

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class OutputReport:
    """What was read back of a materialized version, and what is wrong with it.

    Attributes:
        destination: The URL of the materialized version.
        version: The version of the table that was written.
        files: How many files were read.
        rows: How many rows the files have, by the manifest.
        file_bytes: How many bytes the files have, by the manifest.
        seconds: How long it took.
        problems: What is wrong; none where all is well.
    """

    destination: str
    version: int
    files: int
    rows: int
    file_bytes: int
    seconds: float
    problems: tuple[OutputProblem, ...]

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self) -> str:
        """As a text for programs."""
        return json.dumps({**asdict(self), "good": self.is_good}, indent=1)

    def __str__(self) -> str:
        lines = [
            f"{self.destination}: version {self.version}, {self.files:,} files, "
            f"{self.rows:,} rows, {self.file_bytes:,} bytes in {self.seconds:.1f} s",
            *(f"  {problem.path}: {problem.message}" for problem in self.problems),
            "all is well" if self.is_good else f"{len(self.problems)} problems",
        ]
        return "\n".join(lines)


def verify_output(
    spark: SparkSession,
    destination: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
) -> OutputReport:
    """Read all files of a materialized version, and compare their bytes with the manifest.

    Args:
        spark: Where the work is done.
        destination: What `materialize` wrote.
        storage_options: For fsspec.

    Raises:
        NotALanceTable: Nothing is complete there.
        CorruptFile: The manifest is damaged.
    """
    began = time.monotonic()
    found = open_materialized(destination, storage_options)
    parts = [part for piece in found.pieces for part in piece.parts]
    problems = tuple(find_changes(spark, found.files, parts))
    return OutputReport(
        destination=found.files.shown,
        version=found.version,
        files=len(parts),
        rows=found.rows,
        file_bytes=sum(part.size for part in parts),
        seconds=round(time.monotonic() - began, 3),
        problems=problems,
    )


def find_changes(spark: SparkSession, files: Files, parts: Sequence[Part]) -> list[OutputProblem]:
    """Return which files do not have the bytes that were written.

    Args:
        spark: Where they are read.
        files: The files of the destination.
        parts: The files, and what they were.
    """
    what = f"verify {files.shown}"
    where = files.url, files.storage
    results = run_pieces(spark, what, len(parts), make_checker, where, list(parts))
    said = [OutputProblem(*result) for result in results]
    return sorted((one for one in said if one.message), key=lambda one: one.path)


def make_checker(where: tuple[str, dict[str, Any]], parts: list[Part]) -> Callable[[int], Any]:
    """Return what a worker does: compare a file with what was written."""
    files = Files(*where)

    def check(number: int) -> tuple[str, str]:
        return parts[number].path, _difference(files, parts[number])

    return check


def _difference(files: Files, part: Part) -> str:
    """Say what is wrong with a file; nothing if it is as it was written."""
    try:
        found = files.found(part.path)
        if found.size != part.size:
            return f"it has {found.size:,} bytes, {part.size:,} were written"
        if files.checksum(part.path) != part.checksum:
            return "it has other bytes than were written"
    except FileNotFoundError:
        return "it is gone"
    except OSError as error:
        return f"it cannot be read: {error}"
    return ""
