"""Verifying a version on many machines, some fragments a piece."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lancefs.masking import mask_secrets
from lancefs.spark.partitions import BYTES_PER_PARTITION
from lancefs.spark.pinned_version import Pinned, open_table, pin
from lancefs.spark.pipeline.jobs import cores_of, run_pieces
from lancefs.spark.pipeline.metrics import Metrics
from lancefs.spark.pipeline.packing import Pack, pack
from lancefs.spark.stores import absolute
from lancefs.spark.table_options import TableOptions
from lancefs.table.refs import Ref, make_ref
from lancefs.table.verification import Problem, Verifier


@dataclass(frozen=True, slots=True)
class Report:
    """What was verified, and what is wrong.

    Attributes:
        source: The table.
        version: The version.
        fragments: How many fragments were decoded.
        rows: The number of their rows, deleted ones included.
        deleted: How many of these rows are deleted.
        values: How many values were decoded, in all columns.
        file_bytes: Bytes of the data files.
        seconds: How long it took.
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
    source: str | os.PathLike[str],
    *,
    ref: Ref | int | str | date | None = None,
    storage_options: Mapping[str, Any] | None = None,
    base_paths: Mapping[str, str] | None = None,
    metrics: str | Path | None = None,
) -> Report:
    """Decode every value of a version, and compare counts and lengths with the manifest.

    Args:
        spark: Where the work is done.
        source: The table.
        ref: The version: a number, a tag, `exp:3`, or a time; the newest by default.
        storage_options: For fsspec.
        base_paths: Where the files below base paths of the table are now, by base path.
        metrics: A file of this machine to which a line of JSON is appended.

    Raises:
        LanceError: The version cannot be opened at all.
    """
    began = time.monotonic()
    table = TableOptions(absolute(source), dict(storage_options or {}), moved=base_paths or {})
    version = open_table(table, make_ref(ref=ref))
    number, fragments = version.manifest.version, version.manifest.fragments
    shown = mask_secrets(table.url)
    measured = Metrics(metrics, job="verify", source=shown, version=number)
    packs = pack(fragments, range(len(fragments)), BYTES_PER_PARTITION, cores_of(spark))
    what = f"verify {shown}@{number}"
    results = run_pieces(spark, what, len(packs), make_verifier, pin(table, version), packs)
    found = [one for result in results for one in result]
    said = sorted(found, key=lambda one: int(one["fragment"]))
    report = Report(
        source=shown,
        version=number,
        fragments=len(said),
        rows=sum(one["rows"] for one in said),
        deleted=sum(one["deleted"] for one in said),
        values=sum(one["values"] for one in said),
        file_bytes=sum(one["file_bytes"] for one in said),
        seconds=round(time.monotonic() - began, 3),
        problems=tuple(Problem(**problem) for one in said for problem in one["problems"]),
    )
    measured.add({"event": "run", **asdict(report), "problems": len(report.problems)})
    return report


def make_verifier(pinned: Pinned, packs: list[Pack]) -> Callable[[int], Any]:
    """Return what a worker does: verify the fragments of a piece."""
    version = pinned.open()
    fragments = version.manifest.fragments

    def check(number: int) -> list[dict[str, Any]]:
        first, last = packs[number]
        verifier = Verifier(version)
        return [asdict(verifier.verify(fragments[one])) for one in range(first, last + 1)]

    return check
