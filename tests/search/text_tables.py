"""Tables of texts, and what pylance finds in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa

import lancefs
from lancefs.search.text_query import TextQuery

# Words by their ranks: the first ones are in most texts.
WORDS = [
    *"house running houses the quickly Zürich résumé naïve of running-dog don't".split(" "),  # noqa: SIM905
    *(f"word{number}" for number in range(300)),
]
_FREQUENCIES = 1 / np.arange(1, len(WORDS) + 1)


def texts(count: int, seed: int = 0, words: int = 12) -> list[str | None]:
    """Texts of words that are rare or frequent; a few are missing or empty."""
    draw = np.random.default_rng(seed)
    made: list[str | None] = []
    for _ in range(count):
        picked = draw.choice(WORDS, draw.integers(0, words), p=_FREQUENCIES / _FREQUENCIES.sum())
        made.append(" ".join(picked) if draw.random() > 0.03 else None)
    return made


def rows(count: int, seed: int = 0, first: int = 0) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table(
        {
            "id": ids,
            "small": pa.array(ids % 7, pa.int32()),
            "t": texts(count, seed),
            "u": pa.array(texts(count, seed + 1000, 5), pa.large_string()),
        }
    )


def write(path: Path, table: pa.Table, column: str = "t", **options: Any) -> str:
    """Write a table with a full-text index; arguments of `write_dataset` are `to_dataset`."""
    lance.write_dataset(table, path, **options.pop("to_dataset", {}))
    index(str(path), column, **options)
    return str(path)


def index(path: str, column: str = "t", **options: Any) -> None:
    lance.dataset(path).create_scalar_index(column, "INVERTED", **options)


def as_theirs(query: TextQuery) -> lance.query.FullTextQuery:
    """A query in the words of pylance."""
    match query:
        case lancefs.MatchQuery():
            return lance.query.MatchQuery(
                query.query,
                query.column,
                boost=query.boost,
                operator=lance.query.FullTextOperator(query.operator),
                fuzziness=query.fuzziness,
                max_expansions=query.max_expansions,
                prefix_length=query.prefix_length,
            )
        case lancefs.PhraseQuery():
            return lance.query.PhraseQuery(query.query, query.column, slop=query.slop)
        case lancefs.MultiMatchQuery():
            return lance.query.MultiMatchQuery(
                query.query,
                query.columns,
                boosts=query.boosts,
                operator=lance.query.FullTextOperator(query.operator),
            )
        case lancefs.BoostQuery():
            return lance.query.BoostQuery(
                as_theirs(query.positive),
                as_theirs(query.negative),
                negative_boost=query.negative_boost,
            )
    occurs = lance.query.Occur
    parts = ((occurs.MUST, query.must), (occurs.SHOULD, query.should))
    every = [*parts, (occurs.MUST_NOT, query.must_not)]
    return lance.query.BooleanQuery([(o, as_theirs(one)) for o, part in every for one in part])


def theirs(path: str, query: str | TextQuery, k: int | None = None, **options: Any) -> pa.Table:
    """What pylance finds, the best row first; options are `filter`, `prefilter`."""
    asked = query if isinstance(query, str) else as_theirs(query)
    found = lance.dataset(path).to_table(
        columns=["id", "_score"], with_row_id=True, full_text_query=asked, limit=k, **options
    )
    return found.sort_by([("_score", "descending"), ("_rowid", "ascending")])


def ours(path: str, query: str | TextQuery, k: int | None = None, **options: Any) -> pa.Table:
    """What lancefs finds."""
    options.setdefault("prefilter", False)
    return lancefs.open(path).search(query, k=k, select=["id"], with_row_id=True, **options)


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Compare rows and scores; sums of floats differ in their last digits, and so may order."""
    mine, other = (
        dict(zip(table["_rowid"].to_pylist(), table["_score"].to_pylist(), strict=True))
        for table in (found, expected)
    )
    assert mine.keys() == other.keys()
    scores = [mine[row_id] for row_id in other]
    np.testing.assert_allclose(scores, list(other.values()), rtol=1e-5, atol=1e-5)
    in_order = np.asarray(found["_score"])
    assert (in_order[:-1] >= in_order[1:]).all()


def assert_same_best(found: pa.Table, expected: pa.Table) -> None:
    """Compare the best rows: their scores, since rows of one score are chosen differently."""
    scores, known = (np.asarray(table["_score"]) for table in (found, expected))
    np.testing.assert_allclose(scores, known, rtol=1e-5, atol=1e-5)
