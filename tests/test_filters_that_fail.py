"""A filter that fails for a value fails for rows of the table, not for deleted ones."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.errors import InvalidFilter

ROWS = 1000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows with divisors and texts, of which those with a zero and a text without a number go."""
    path = str(tmp_path_factory.mktemp("tables") / "t.lance")
    texts = ["none" if row % 7 == 3 else str(row % 9) for row in range(ROWS)]
    columns = {
        "divisor": [0 if row % 7 == 3 else row % 5 + 1 for row in range(ROWS)],
        "text": texts,
        "word": pa.array(texts).dictionary_encode(),
    }
    lance.write_dataset(pa.table(columns), path)
    lance.dataset(path).delete("divisor = 0")
    return path


def _live(divide: bool) -> int:
    live = [row for row in range(ROWS) if row % 7 != 3]
    return sum(10 // (row % 5 + 1) > 3 if divide else row % 9 > 3 for row in live)


_DIVIDED = pc.divide(pc.scalar(10), pc.field("divisor")) > 3
_FILTERS = [
    ("10 / divisor > 3", True),
    (_DIVIDED, True),
    ("CAST(text AS int) > 3", False),
    ("CAST(word AS int) > 3", False),
    (pc.field("word").cast(pa.int64()) > 3, False),
]


@pytest.mark.parametrize(("filter", "divide"), _FILTERS, ids=lambda one: str(one)[:25])
@pytest.mark.parametrize("options", [{}, {"dictionary_columns": ["text"]}, {"columns": ["text"]}])
def test_a_filter_is_not_asked_of_deleted_rows(
    filter: Any, divide: bool, options: dict[str, Any], path: str
) -> None:
    dataset = lancefs.open(path)
    assert dataset.to_table(filter=filter, **options).num_rows == _live(divide)
    assert dataset.count_rows(filter) == _live(divide)


def test_a_filter_that_fails_for_a_row_of_the_table_is_said(path: str) -> None:
    old = lancefs.open(path, version=1)
    with pytest.raises(InvalidFilter, match=r"10 / divisor > 3.* fails for a row: divide"):
        old.to_table(filter="10 / divisor > 3")
    with pytest.raises(InvalidFilter, match=r"fails for a row: .*none"):
        old.to_table(filter="CAST(word AS int) > 3")
    with pytest.raises(pa.ArrowInvalid, match="divide by zero"):
        old.to_table(filter=_DIVIDED)
