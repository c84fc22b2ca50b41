"""Full-text queries: words, phrases, and their combinations.

The classes have the names and arguments of those of Lance's own package, `lance.query`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TypeAlias

from lancefs.arguments import check_whole


@dataclass(frozen=True)
class MatchQuery:
    """Finds texts with any word of the query, or with all.

    Args:
        query: The words.
        column: The column; None for all columns with a full-text index.
        boost: What scores are multiplied with.
        operator: `OR` for any word, `AND` for all.
        fuzziness: How many characters of a word may be put in, left out or changed; None for 0
            in words of up to 2 characters, 1 in words of up to 5, and 2 in longer ones. With a
            number from 1 on, words are taken as they are typed, not as the index changes words.
        max_expansions: How many words of the texts all words of the query stand for, at most.
        prefix_length: How many characters at the beginning of a word must be the same.
    """

    query: str
    column: str | None = None
    boost: float = 1.0
    operator: str = "OR"
    fuzziness: int | None = 0
    max_expansions: int = 50
    prefix_length: int = 0

    def __post_init__(self) -> None:
        _check_text(self.query)
        check_whole(0, max_expansions=self.max_expansions, prefix_length=self.prefix_length)
        if self.fuzziness is not None:
            check_whole(0, fuzziness=self.fuzziness)
        if not (_is_finite(self.boost) and self.boost >= 0):
            raise ValueError(f"boost is {self.boost!r}; a number from 0 on was expected")
        if str(self.operator).upper() not in ("OR", "AND"):
            raise ValueError(f"operator is {self.operator!r}; 'OR' or 'AND' was expected")

    @property
    def needs_all(self) -> bool:
        """Whether all words must be in a text."""
        return self.operator.upper() == "AND"

    @property
    def is_fuzzy(self) -> bool:
        """Whether words that are like those of the query are found too."""
        return self.fuzziness != 0


@dataclass(frozen=True)
class PhraseQuery:
    """Finds texts with words that follow each other.

    Args:
        query: The words, in their order.
        column: The column; None for the only one with a full-text index.
        slop: How many other words may be between two of them.
    """

    query: str
    column: str | None = None
    slop: int = 0

    def __post_init__(self) -> None:
        _check_text(self.query)
        check_whole(0, slop=self.slop)


@dataclass(frozen=True)
class MultiMatchQuery:
    """Finds texts in several columns; the best score of a row counts.

    Args:
        query: The words.
        columns: The columns.
        boosts: What the scores of each column are multiplied with; None for 1.
        operator: `OR` for any word, `AND` for all, in one column.
        fuzziness: See `MatchQuery`.
        max_expansions: See `MatchQuery`; in each column.
        prefix_length: See `MatchQuery`.
    """

    query: str
    columns: Sequence[str]
    boosts: Sequence[float] | None = None
    operator: str = "OR"
    fuzziness: int | None = 0
    max_expansions: int = 50
    prefix_length: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) or not self.columns:
            raise ValueError(f"columns is {self.columns!r}; a list of names was expected")
        if self.boosts is not None and len(self.boosts) != len(self.columns):
            raise ValueError(f"{len(self.boosts)} boosts for {len(self.columns)} columns")
        list(self.parts)

    @property
    def parts(self) -> Iterator[MatchQuery]:
        """The query of each column."""
        how = (self.operator, self.fuzziness, self.max_expansions, self.prefix_length)
        boosts = self.boosts or [1.0] * len(self.columns)
        for column, boost in zip(self.columns, boosts, strict=True):
            yield MatchQuery(self.query, column, boost, *how)


@dataclass(frozen=True)
class BoostQuery:
    """Finds what one query finds, with lower scores for what another one finds too.

    Args:
        positive: Finds the rows.
        negative: Its scores are taken off, for rows that it finds too.
        negative_boost: What these are multiplied with first.
    """

    positive: TextQuery
    negative: TextQuery
    negative_boost: float = 0.5

    def __post_init__(self) -> None:
        if not _is_finite(self.negative_boost):
            raise ValueError(f"negative_boost is {self.negative_boost!r}; a number was expected")


@dataclass(frozen=True)
class BooleanQuery:
    """Finds rows by several queries; the scores of the queries that must or should match are added.

    Args:
        must: All of these find each row.
        should: Some of these find each row, where no query must.
        must_not: None of these finds a row.
    """

    must: Sequence[TextQuery] = ()
    should: Sequence[TextQuery] = ()
    must_not: Sequence[TextQuery] = ()

    def __post_init__(self) -> None:
        for name in ("must", "should", "must_not"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise TypeError(f"{name} is {given!r}; a list of queries was expected")
        if not self.must and not self.should:
            raise ValueError("a boolean query needs a query that must or should match")


TextQuery: TypeAlias = MatchQuery | PhraseQuery | MultiMatchQuery | BoostQuery | BooleanQuery
LeafQuery: TypeAlias = MatchQuery | PhraseQuery


def with_columns(query: TextQuery, columns: Sequence[str]) -> TextQuery:
    """Return a query with columns where it names none.

    Args:
        query: The query.
        columns: The columns, one or more.

    Raises:
        ValueError: A phrase is looked for in several columns.
    """
    match query:
        case MatchQuery(column=None) if len(columns) > 1:
            many = [query.boost] * len(columns)
            how = (query.fuzziness, query.max_expansions, query.prefix_length)
            return MultiMatchQuery(query.query, columns, many, query.operator, *how)
        case PhraseQuery(column=None) if len(columns) > 1:
            raise ValueError(f"a phrase is looked for in one column; name it: {', '.join(columns)}")
        case MatchQuery(column=None) | PhraseQuery(column=None):
            return replace(query, column=columns[0])
        case BoostQuery():
            positive = with_columns(query.positive, columns)
            negative = with_columns(query.negative, columns)
            return BoostQuery(positive, negative, query.negative_boost)
        case BooleanQuery():
            parts = (query.must, query.should, query.must_not)
            return BooleanQuery(*([with_columns(one, columns) for one in part] for part in parts))
        case _:
            return query


def leaves(query: TextQuery) -> Iterator[LeafQuery]:
    """Yield the queries of single columns that a query consists of.

    Raises:
        TypeError: A part of it is no query.
    """
    match query:
        case MatchQuery() | PhraseQuery():
            yield query
        case MultiMatchQuery():
            yield from query.parts
        case BoostQuery():
            yield from leaves(query.positive)
            yield from leaves(query.negative)
        case BooleanQuery():
            for one in (*query.must, *query.should, *query.must_not):
                yield from leaves(one)
        case _:
            raise TypeError(f"{query!r} is no query; a text or {_NAMES} was expected")


_NAMES = "a MatchQuery, PhraseQuery, MultiMatchQuery, BoostQuery or BooleanQuery"


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"query is {text!r}; a text was expected")
