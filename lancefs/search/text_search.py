"""`TextSearch`: the rows whose texts match a query best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.arguments import check_list, check_whole
from lancefs.datafile.buffers import UInts, to_arrow_numbers
from lancefs.datafile.fields import Field
from lancefs.forks import cached_property
from lancefs.index.column_indices import BrokenSegment
from lancefs.index.text.text_indices import TextIndices, text_indices_of
from lancefs.printable import plural, printable
from lancefs.search.found_rows import FoundRows, WantedRows
from lancefs.search.scored_rows import Scored, added, best, in_all, maxima, scores_in
from lancefs.search.text_column import TextColumn
from lancefs.search.text_query import (
    BooleanQuery,
    BoostQuery,
    LeafQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    TextQuery,
    leaves,
    with_columns,
)
from lancefs.search.text_sources import TextOpener
from lancefs.table.file_prefetch import opening_files
from lancefs.table.members import columns_and_members
from lancefs.table.open_version import OpenVersion

SCORE = pa.field("_score", pa.float32())

# Of a query, only known rows are scored if they are this many times fewer than those it finds.
_FEWER = 2


class _TextOutcome(NamedTuple):
    """What a search found, the best row first, and how, a line each."""

    found: Scored
    notes: Sequence[str]


class TextSearch:
    """A search for the rows with the best texts; made by `LanceDataset.text_search`.

    Args:
        version: The version of the table.
        query: What is searched for: words, or a query.
        columns: The columns; None for all with a full-text index.
        k: How many rows; None for all that are found.
        rows: Which rows may be found, and what is returned of them.

    Raises:
        ColumnNotFound: A column is not in the table, or the table has no row ids.
        InvalidFilter: The text of the filter cannot be parsed.
        TypeError: An argument has another type than described.
        ValueError: An argument makes no sense, or no column has a full-text index.
    """

    def __init__(
        self,
        version: OpenVersion,
        query: str | TextQuery,
        columns: Sequence[str] | None,
        k: int | None,
        rows: WantedRows,
    ) -> None:
        if k is not None:
            check_whole(1, k=k)
        self._version = version
        self._k = None if k is None else int(k)
        self._rows = rows
        self._found = FoundRows(version, rows, [SCORE])
        self._query = self._complete(_query_of(query), columns)
        self._fields = {str(one.column): _text_field(version, one) for one in leaves(self._query)}

    def _complete(self, query: TextQuery, columns: Sequence[str] | None) -> TextQuery:
        """Return a query whose parts all name their column."""
        check_list("columns", columns)
        if columns is not None and not len(columns):
            raise ValueError(
                f"columns is {columns!r}; a list of names was expected, or None for all columns "
                "with a full-text index"
            )
        parts = list(leaves(query))
        if all(one.column is not None for one in parts):
            return query
        named = list(columns) if columns is not None else self._indexed()
        if not named:
            raise ValueError(
                f"{self._version.name} has no column with a full-text index; name the columns to "
                "read all their texts, or build an index of the kind INVERTED"
            )
        return with_columns(query, named)

    def _indexed(self) -> list[str]:
        """Return the columns, and members of structs, with a full-text index."""
        indices = self._indices
        known = {index.field_id for index in indices.indices} if indices is not None else set()
        every = columns_and_members(self._version.fields) if known else ()
        return [field.name for field in every if field.id in known]

    @cached_property
    def _indices(self) -> TextIndices | None:
        """The full-text indices of the version."""
        return text_indices_of(self._version)

    def __repr__(self) -> str:
        rows = "all rows" if self._k is None else plural(self._k, "row")
        columns = printable(", ".join(self._fields))
        return f"<TextSearch of {printable(self._version.name)}: {rows} by {columns}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._found.schema

    def to_table(self) -> pa.Table:
        """Search, and read the rows that were found.

        Returns:
            The best rows, the best one first.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
            ImportError: The index holds stems of words, and snowballstemmer is not installed.
        """
        found = self.found
        return self._found.table(found.row_ids, {SCORE.name: to_arrow_numbers(found.scores)})

    @property
    def found(self) -> Scored:
        """The best rows, the best one first; the search is done for it."""
        return self._outcome.found

    def explain(self) -> str:
        """Tell how the rows are found; the search is done for it, and kept for `to_table`."""
        return "\n".join(self._outcome.notes)

    @cached_property
    def _outcome(self) -> _TextOutcome:
        """The best rows."""
        while True:
            try:
                with nullcontext() if self._indices is None else opening_files(self._version):
                    searched = self._columns()
                    found = best(_find(self._query, searched, self._k), self._k)
                break
            except BrokenSegment as error:
                assert self._indices is not None
                self._indices.give_up(error.segment, error.cause)
        notes = [note for one in searched.values() for note in one.notes]
        if self._rows.filter is not None and not self._rows.prefilter:
            found = found.only(self._found.passing(found.row_ids, self._rows.filter))
            notes.append(f"filter after the search: {plural(len(found.row_ids), 'row')} left")
        return _TextOutcome(found, notes)

    def _columns(self) -> dict[str, TextColumn]:
        """Open the columns that are searched."""
        queries = list(leaves(self._query))
        return {
            name: TextOpener(
                self._version,
                self._indices,
                field,
                [one for one in queries if one.column == name],
                self._found,
                bool(self._rows.filters_before),
                self._rows.use_index,
            ).open()
            for name, field in self._fields.items()
        }


def _query_of(query: object) -> TextQuery:
    """Return a query; a text in quotation marks is a phrase."""
    found = query
    if isinstance(query, str):
        is_phrase = len(query) > 1 and query[0] == query[-1] == '"'
        found = PhraseQuery(query[1:-1]) if is_phrase else MatchQuery(query)
    list(leaves(found))  # type: ignore[arg-type]  # raises where it is no query
    return found  # type: ignore[return-value]


def _text_field(version: OpenVersion, leaf: LeafQuery) -> Field:
    """Return the column of a query.

    Raises:
        ColumnNotFound: There is no such column.
        TypeError: It holds no texts.
    """
    field = version.column(str(leaf.column))
    kind = field.storage_type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise TypeError(
            f"column {field.name!r} is {field.storage_type}; texts are string or large_string, or "
            "lists of them"
        )
    return field


def _find(
    query: TextQuery,
    columns: Mapping[str, TextColumn],
    k: int | None,
    among: UInts | None = None,
) -> Scored:
    """Return the rows that a query finds, at least the best `k` of them; None for all.

    Args:
        query: The query.
        columns: The columns.
        k: How many rows.
        among: Row ids, ascending, of which all that are found are needed, and no others.
    """
    match query:
        case MatchQuery() | PhraseQuery():
            return columns[str(query.column)].find(query, k, among)
        case MultiMatchQuery():
            return maxima([_find(one, columns, k, among) for one in query.parts])
        case BoostQuery():
            return _find_demoted(query, columns, k, among)
        case BooleanQuery():
            return _find_boolean(query, columns, k, among)


def _find_demoted(
    query: BoostQuery, columns: Mapping[str, TextColumn], k: int | None, among: UInts | None
) -> Scored:
    """Return what `_find` does; the best rows may be among the best of the positive query."""
    for tried in _tries(k if query.negative_boost >= 0 and among is None else None):
        found = _find(query.positive, columns, tried, among)
        found = found if tried is None else best(found, tried)
        negative = _find(query.negative, columns, None, np.sort(found.row_ids))
        taken = np.nan_to_num(scores_in(negative, found.row_ids)) * np.float32(query.negative_boost)
        scores = found.scores - taken
        # Rows that were not found have no better scores than the last one, before or after.
        if tried is None or k is None or len(scores) < tried:
            break
        if np.partition(scores, len(scores) - k)[len(scores) - k] > found.scores[-1]:
            break
    return Scored(found.row_ids, scores)


def _find_boolean(
    query: BooleanQuery, columns: Mapping[str, TextColumn], k: int | None, among: UInts | None
) -> Scored:
    """Return what `_find` does; of one query, the best rows that others leave are looked for."""
    parts = [*query.must, *query.should]
    for tried in _tries(k if len(parts) == 1 and among is None else None):
        found = _find_positive(query, columns, tried, among)
        found = found if tried is None else best(found, tried)
        is_whole = tried is None or len(found.row_ids) < tried
        for one in query.must_not:
            others = _find(one, columns, None, np.sort(found.row_ids))
            found = found.only(np.isnan(scores_in(others, found.row_ids)))
        if is_whole or (k is not None and len(found.row_ids) >= k):
            break
    return found


def _find_positive(
    query: BooleanQuery, columns: Mapping[str, TextColumn], k: int | None, among: UInts | None
) -> Scored:
    """Return the rows that a boolean query finds but for those that must not match."""
    if not query.must:
        return added([_find(one, columns, k, among) for one in query.should])
    rarest, *others = sorted(query.must, key=lambda one: _most_rows(one, columns))
    parts = [(rarest, _find(rarest, columns, k, among))]
    few = parts[0][1]
    for one in others:
        if _FEWER * len(few.row_ids) <= _most_rows(one, columns):
            few = _find(one, columns, None, np.sort(few.row_ids))
            parts.append((one, few))
        else:
            parts.append((one, _find(one, columns, None, among)))
    # Scores are added in the order of the query, since sums are rounded.
    found = in_all([next(scored for part, scored in parts if part is one) for one in query.must])
    known = np.sort(found.row_ids)
    should = added([_find(one, columns, None, known) for one in query.should])
    scores = found.scores + np.nan_to_num(scores_in(should, found.row_ids))
    return Scored(found.row_ids, scores)


def _most_rows(query: TextQuery, columns: Mapping[str, TextColumn]) -> int:
    """Return how many rows a query finds at most, deleted ones included."""
    match query:
        case MatchQuery() | PhraseQuery():
            return columns[str(query.column)].most_rows(query)
        case MultiMatchQuery():
            return sum(_most_rows(one, columns) for one in query.parts)
        case BoostQuery():
            return _most_rows(query.positive, columns)
        case BooleanQuery():
            sizes = [_most_rows(one, columns) for one in query.must or query.should]
            return min(sizes) if query.must else sum(sizes)


def _tries(k: int | None) -> Iterator[int | None]:
    """Yield how many rows are looked at: more of them each time, and all in the end."""
    if k is not None:
        yield 2 * k
        yield 16 * k
    yield None
