"""Whether a statement needs all rows of its tables before it returns one: a guess from its text."""

from __future__ import annotations

import re
from functools import lru_cache

from duckdb_adapter.queries.function_names import AGGREGATES
from duckdb_adapter.queries.table_query import MAX_TEXTS

_IN_ORDER = re.compile(r"\b(group|order)\s+by\b", re.IGNORECASE)
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)
# What a statement has that needs all rows before it returns one, mostly; and what may need few.
_ALL_ROWS = re.compile(
    rf"\b(group\s+by|order\s+by|distinct|{'|'.join(sorted(AGGREGATES))})\b"
    r"|\A\s*(create|insert|copy)\b",
    re.IGNORECASE,
)
_FEW_ROWS = re.compile(r"\b(limit|exists|sample)\b", re.IGNORECASE)


@lru_cache(MAX_TEXTS)
def needs_all_rows(text: str) -> bool:
    """Guess whether a statement needs all rows of its tables before it returns one.

    A wrong guess costs time: it decides how long the first batches are.

    Args:
        text: The whole statement; empty where it is not known.
    """
    text = _without_last_limit(text)
    return _ALL_ROWS.search(text) is not None and _FEW_ROWS.search(text) is None


def _without_last_limit(text: str) -> str:
    """Return a statement without the LIMIT that ends it, if that takes groups or rows in order.

    The first of these are known when all rows are.
    """
    end = max((found.start() for found in _LIMIT.finditer(text)), default=len(text))
    is_last = ")" not in text[end:]
    return text[:end] if is_last and _IN_ORDER.search(text, 0, end) else text
