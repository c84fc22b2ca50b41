"""The page `describe`: what the values of columns are like."""

from __future__ import annotations

from lancefs.cli.pages.page_request import PageRequest
from lancefs.cli.pages.parts import section
from lancefs.cli.report.values import describe_values

# Rows that are drawn at random from a table of more.
_SAMPLE = 100_000


def make(asked: PageRequest) -> str:
    """Return nulls, quantiles, histograms and frequent values of a column, or of all."""
    column = asked.query.get("column")
    sample = _SAMPLE if asked.dataset.count_rows() > _SAMPLE else None
    profile = asked.dataset.describe(None if column is None else [column], sample=sample)
    return section(describe_values(profile))
