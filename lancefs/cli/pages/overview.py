"""The page `report`: what `lancefs report` writes."""

from __future__ import annotations

from dataclasses import replace

from lancefs.cli.pages.page_request import PageRequest
from lancefs.cli.report.facts import gather
from lancefs.errors import UnsupportedFeature
from lancefs.forks import Lock

# matplotlib's settings are those of the process.
_ONE_AT_A_TIME = Lock()


def make(asked: PageRequest) -> str:
    """Return versions, fragments, storage, columns, indices, and what stands out."""
    try:
        import matplotlib  # noqa: F401  # charts need it
    except ImportError:
        raise UnsupportedFeature(
            "the report needs matplotlib, which the server lacks: pip install 'lancefs[report]'"
        ) from None
    from lancefs.cli.report.page import report_body

    facts = replace(gather(asked.target), name=asked.title)  # not where the table is
    with _ONE_AT_A_TIME:
        return report_body(facts)
