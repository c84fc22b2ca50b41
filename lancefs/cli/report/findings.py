"""Findings about a table: what costs space or time, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lancefs.cli.render.text import plural, share, size
from lancefs.cli.report.facts import Facts

# Thresholds of the findings.
_SMALL_ROWS = 100_000  # Lance writes a million rows a fragment by default
_MANY_FRAGMENTS = 10
_DELETED_SHARE = 0.1
_FRAGMENT_SHARE = 0.5
_TOMBSTONE_SHARE = 0.05
_OVERHEAD_SHARE = 0.25
_MIN_BYTES = 1024 * 1024  # in smaller tables, a large share of metadata does not matter
_MANY_VERSIONS = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding about a table.

    Attributes:
        level: Severity.
        title: The finding in a few words.
        text: Explanation, and what to do.
    """

    level: Literal["warning", "hint"]
    title: str
    text: str


def find(facts: Facts) -> list[Finding]:
    """Return the findings, warnings first."""
    checks = (_problems, _deletions, _fragments, _tombstones, _coverage, _overhead, _versions)
    findings = [finding for check in checks for finding in check(facts)]
    return sorted(findings, key=lambda finding: finding.level != "warning")


def _problems(facts: Facts) -> Iterator[Finding]:
    for problem in facts.usage.problems:
        yield Finding("warning", "A data file cannot be read", problem)
    notes = [commit for commit in facts.commits if commit.note]
    if notes:
        yield Finding(
            "hint",
            f"{plural(len(notes), 'version')} cannot be described in full",
            f"For instance version {notes[-1].version}: {notes[-1].note}.",
        )


def _deletions(facts: Facts) -> Iterator[Finding]:
    physical = sum(fragment.physical_rows or 0 for fragment in facts.manifest.fragments)
    if not physical:
        return
    heavy = [
        fragment
        for fragment in facts.manifest.fragments
        if fragment.physical_rows
        and (fragment.num_deleted or 0) / fragment.physical_rows > _FRAGMENT_SHARE
    ]
    part = facts.deleted / physical
    if part > _DELETED_SHARE or heavy:
        where = f" In {plural(len(heavy), 'fragment')}, most rows are deleted." if heavy else ""
        yield Finding(
            "warning",
            f"{share(part)} of the rows in data files are deleted",
            f"{plural(facts.deleted, 'row')} take space and are skipped by every scan.{where} "
            "A compaction removes them.",
        )


def _fragments(facts: Facts) -> Iterator[Finding]:
    fragments = facts.manifest.fragments
    small = [fragment for fragment in fragments if (fragment.num_rows or 0) < _SMALL_ROWS]
    if len(small) > _MANY_FRAGMENTS:
        yield Finding(
            "warning",
            f"{len(small):,} of {plural(len(fragments), 'fragment')} are small",
            f"Each has fewer than {_SMALL_ROWS:,} rows, and reading it takes requests of its own. "
            "A compaction merges them.",
        )


def _tombstones(facts: Facts) -> Iterator[Finding]:
    usage = facts.usage
    if usage.total and usage.tombstoned / usage.total > _TOMBSTONE_SHARE:
        yield Finding(
            "warning",
            f"{size(usage.tombstoned)} belong to columns that are gone",
            f"Dropped and replaced columns are still in the data files, "
            f"{share(usage.tombstoned / usage.total)} of all bytes. A compaction removes them.",
        )


def _coverage(facts: Facts) -> Iterator[Finding]:
    for name, uncovered in facts.uncovered.items():
        if uncovered and facts.rows:
            yield Finding(
                "warning" if uncovered / facts.rows > _DELETED_SHARE else "hint",
                f"The index {name} lacks {plural(uncovered, 'row')}",
                f"That is {share(uncovered / facts.rows)} of the table, which searches scan "
                "in full. Optimising the indices adds them.",
            )


def _overhead(facts: Facts) -> Iterator[Finding]:
    usage = facts.usage
    if usage.total > _MIN_BYTES and usage.overhead / usage.total > _OVERHEAD_SHARE:
        has_blobs = any(field.is_blob for field in facts.manifest.fields)
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
            "Old versions keep their files. A clean-up removes versions without tags.",
        )
