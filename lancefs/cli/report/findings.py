"""What stands out about a table, in words, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lancefs.cli.render.text import plural, share, size
from lancefs.cli.report.facts import Facts

# From where on something is worth a word.
_SMALL_ROWS = 100_000  # Lance writes a million rows a fragment by default
_MANY_FRAGMENTS = 10
_DELETED_SHARE = 0.1
_FRAGMENT_SHARE = 0.5
_TOMBSTONE_SHARE = 0.05
_OVERHEAD_SHARE = 0.25
_LEAST_BYTES = 1024 * 1024  # smaller tables have more metadata than data, and nobody minds
_MANY_VERSIONS = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands out.

    Attributes:
        level: How much it matters.
        title: What it is.
        text: What it means, and what to do.
    """

    level: Literal["warning", "hint"]
    title: str
    text: str


def find(facts: Facts) -> list[Finding]:
    """Return what stands out, the weightiest first."""
    checks = (_problems, _deletions, _fragments, _tombstones, _coverage, _overhead, _versions)
    found = [finding for check in checks for finding in check(facts)]
    return sorted(found, key=lambda one: one.level != "warning")


def _problems(facts: Facts) -> Iterator[Finding]:
    for problem in facts.usage.problems:
        yield Finding("warning", "A data file cannot be read", problem)
    notes = [one for one in facts.commits if one.note]
    if notes:
        yield Finding(
            "hint",
            f"{plural(len(notes), 'version')} cannot be described in full",
            f"For instance version {notes[-1].version}: {notes[-1].note}.",
        )


def _deletions(facts: Facts) -> Iterator[Finding]:
    physical = sum(one.physical_rows or 0 for one in facts.manifest.fragments)
    if not physical:
        return
    heavy = [
        one
        for one in facts.manifest.fragments
        if one.physical_rows and (one.num_deleted or 0) / one.physical_rows > _FRAGMENT_SHARE
    ]
    part = facts.deleted / physical
    if part > _DELETED_SHARE or heavy:
        where = f" In {plural(len(heavy), 'fragment')} it is more than half." if heavy else ""
        yield Finding(
            "warning",
            f"{share(part)} of the rows in data files are deleted",
            f"{plural(facts.deleted, 'row')} take space and are read past.{where} "
            "A compaction removes them.",
        )


def _fragments(facts: Facts) -> Iterator[Finding]:
    small = [one for one in facts.manifest.fragments if (one.num_rows or 0) < _SMALL_ROWS]
    if len(small) > _MANY_FRAGMENTS:
        total = len(facts.manifest.fragments)
        yield Finding(
            "warning",
            f"{len(small):,} of {plural(total, 'fragment')} are small",
            f"They have fewer than {_SMALL_ROWS:,} rows each; every one costs requests when it is "
            "read. A compaction joins them.",
        )


def _tombstones(facts: Facts) -> Iterator[Finding]:
    usage = facts.usage
    if usage.total and usage.tombstoned / usage.total > _TOMBSTONE_SHARE:
        yield Finding(
            "warning",
            f"{size(usage.tombstoned)} belong to columns that are gone",
            f"Columns were dropped or replaced, their bytes are still in the data files: "
            f"{share(usage.tombstoned / usage.total)} of all. A compaction leaves them out.",
        )


def _coverage(facts: Facts) -> Iterator[Finding]:
    for index in facts.indices:
        if index.uncovered and index.rows:
            yield Finding(
                "warning" if index.uncovered / index.rows > _DELETED_SHARE else "hint",
                f"The index {index.name} lacks {plural(index.uncovered, 'row')}",
                f"That is {share(index.uncovered / index.rows)} of the table, which searches scan "
                "in full. Optimising the indices adds them.",
            )


def _overhead(facts: Facts) -> Iterator[Finding]:
    usage = facts.usage
    if usage.total > _LEAST_BYTES and usage.overhead / usage.total > _OVERHEAD_SHARE:
        has_blobs = any(one.is_blob for one in facts.manifest.fields)
        if not has_blobs:
            yield Finding(
                "hint",
                f"{share(usage.overhead / usage.total)} of the bytes are metadata",
                "The data files are small for the number of columns. Larger ones cost less.",
            )


def _versions(facts: Facts) -> Iterator[Finding]:
    if facts.versions > _MANY_VERSIONS:
        yield Finding(
            "hint",
            f"There are {plural(facts.versions, 'version')}",
            "Old versions keep their files. A clean-up removes those that no tag points to.",
        )
