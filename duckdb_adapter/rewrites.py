"""The rewrites: fewer rows that may replace a table in a statement, tried in order.

Each rewrite combines an analysis of the statement (`queries`) with rows that are enough for it
(`sources`). The first one that applies is used; earlier ones leave out more rows than later ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from duckdb_adapter.engine_settings import BindContext
from duckdb_adapter.queries.called_functions import takes_encoded_lists
from duckdb_adapter.queries.computed_filters import computed_filter
from duckdb_adapter.queries.extreme_tests import extreme_uses
from duckdb_adapter.queries.groups import repeated_columns
from duckdb_adapter.queries.joins import join_keys
from duckdb_adapter.queries.limits import LimitedRange, limited_range, sampled_rows
from duckdb_adapter.queries.members import UsedColumns, untested_members, used_columns
from duckdb_adapter.queries.partitions import top_n_of_partitions
from duckdb_adapter.queries.pivots import BIND_COUNT, pivot_groups
from duckdb_adapter.queries.sorts import sorted_columns
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.top_n import TopN, top_n_of
from duckdb_adapter.queries.unpushed_filters import unpushed_conditions
from duckdb_adapter.releases import is_new, reads_encoded_lists
from duckdb_adapter.sources.column_values import are_values_cached, keep_texts
from duckdb_adapter.sources.deferred_columns import computed_rows
from duckdb_adapter.sources.extreme_filters import ExtremeRows
from duckdb_adapter.sources.extremes import extreme_rows
from duckdb_adapter.sources.groups import group_by_codes
from duckdb_adapter.sources.kept_rows import KeptRows, kept_rows
from duckdb_adapter.sources.limits import LimitedRows, SampledRows, rows_behind_nulls
from duckdb_adapter.sources.members import MemberRows
from duckdb_adapter.sources.number_ranges import ranged_keys, ranged_to_sort
from duckdb_adapter.sources.replacement import Replacement
from duckdb_adapter.sources.rows import Rows
from duckdb_adapter.sources.top_n import TopNRows
from duckdb_adapter.sources.unpushed_filters import FilteredRows
from duckdb_adapter.sources.value_counts import value_count_rows
from lancefs.errors import LanceError
from lancefs.scan.selectivity import has_many_rows

_log = logging.getLogger("duckdb_adapter")

# Columns from which on those that a statement does not name are left out: each takes DuckDB 0.02 ms
# of every statement, and to parse one takes as long as twenty of them.
_MANY_COLUMNS = 24


class BoundTable(NamedTuple):
    """A table at the time when DuckDB binds its name in a statement.

    Attributes:
        rows: The rows of the table.
        query: The statement.
        context: What DuckDB reports about the statement.
        is_view: Whether a view reads the table, which needs all columns with their own types.
        is_guessed: Whether that view may be another one than all of the table.
    """

    rows: Rows
    query: TableQuery
    context: BindContext
    is_view: bool
    is_guessed: bool = False

    @property
    def is_first(self) -> bool:
        """Whether the name is bound for the first time, which is that in the FROM clause.

        Macros in the statement, which may use more of the table, are bound later.
        """
        return self.context.use.bind_count == 1

    @property
    def is_nested(self) -> bool:
        """Whether there are SELECTs around that of the table."""
        return self.query.is_nested

    @property
    def columns(self) -> UsedColumns:
        """The parts of columns that the statement uses; empty if it may use all of them."""
        used = used_columns(self.query) if self.is_first else UsedColumns()
        if not self.is_view or used.uses_nothing:
            return used
        # Members that are not there are null in a view, but a guess may be wrong.
        return UsedColumns() if self.is_guessed else UsedColumns(untested_members(self.query))

    @property
    def is_of_statement(self) -> bool:
        """Whether the name is bound for the FROM clause, which DuckDB binds twice for a PIVOT."""
        places = BIND_COUNT if pivot_groups(self.query) else 1
        return self.context.use.bind_count <= places

    @property
    def are_values_enough(self) -> bool:
        """Whether distinct values may replace the rows, and finding them is worthwhile."""
        return self.is_of_statement and are_values_cached(self.rows)

    @property
    def takes_encoded_lists(self) -> bool:
        """Whether lists of strings may come with dictionaries."""
        is_taken = self.is_first and self.rows.has_lists and reads_encoded_lists()
        return is_taken and takes_encoded_lists(self.query)

    def with_used_columns(self, rows: Rows) -> Rows:
        """Return the rows with only the columns that the statement names, if there are many."""
        if self.is_view or not self.is_first or len(rows.schema) < _MANY_COLUMNS:
            return rows
        query = self.query
        return rows.with_columns([query.columns[one] for one in query.uses]) if query.uses else rows


Rewrite: TypeAlias = Callable[[BoundTable], Replacement | None]


def restrict(
    rows: Rows, query: TableQuery, context: BindContext | None, is_view: bool
) -> Replacement:
    """Return what DuckDB reads in place of a table: the rows that the statement uses, or more.

    Args:
        rows: The rows of the table.
        query: The statement.
        context: What DuckDB reports about the statement; None before DuckDB 2.0.
        is_view: Whether a view reads the table.
    """
    if context is None:
        # Only what the text alone proves.
        top_n = _first_rows(query)
        return rows if top_n is None or top_n.calls else TopNRows(rows.dataset, top_n)
    table = BoundTable(rows, query, context, is_view)
    kept = kept_rows(rows)
    if kept is not None:
        return _first_applied((_row_count, partial(_kept, kept)), table) or kept
    found = _first_applied(_FIRST, table)
    if found is None:
        table = _with_cached_strings(table)
        found = _first_applied(_LATER, table)
    return table.rows if found is None else found


def restrict_view(rows: Rows, query: TableQuery, context: BindContext) -> Rows | None:
    """Return the rows that a statement uses of a view, if that is all of a table, or more.

    Args:
        rows: The rows of the table.
        query: The statement, in which the view stands for the table.
        context: What DuckDB reports about the statement, and tells of the view.

    Returns:
        Rows that are all of them where the view is another one; None for all of them anyway.
    """
    if kept_rows(rows) is not None:
        return None
    table = BoundTable(rows, query, context, is_view=True, is_guessed=True)
    limited = limited_range(query)
    skipping = _limited if limited and limited.skipped else _sample
    found = _first_applied((_top_n, skipping, _deferred, _extreme_filters, _unpushed), table)
    return found if isinstance(found, Rows) else None


def _first_applied(rewrites: Sequence[Rewrite], table: BoundTable) -> Replacement | None:
    """Return what the first rewrite that applies has in place of a table."""
    for rewrite in rewrites:
        found = _applied(rewrite, table)
        if found is not None:
            return table.with_used_columns(found) if isinstance(found, Rows) else found
    return None


def _with_cached_strings(table: BoundTable) -> BoundTable:
    """Return a table with those string columns cached that statements use repeatedly."""
    used = repeated_columns(table.query)
    try:
        is_new = bool(used.columns) and table.are_values_enough and keep_texts(table.rows, used)
    except LanceError as error:  # see `_applied`
        _log.debug("columns are not kept in memory, since %s", error)
        return table
    return table._replace(rows=Rows(table.rows.dataset)) if is_new else table


def _applied(rewrite: Rewrite, table: BoundTable) -> Replacement | None:
    """Return the replacement that a rewrite makes; None if it does not apply.

    Some rewrites read columns of which the statement itself may read other rows, or none. So an
    error of such a read is not raised: the scan raises it if it meets the damage.
    """
    try:
        return rewrite(table)
    except LanceError as error:
        _log.debug("all rows are scanned, since %s", error)
        return None


def _first_rows(query: TableQuery) -> TopN | None:
    """Return the first rows of all, or of each group, where a statement uses no others."""
    return top_n_of(query) or top_n_of_partitions(query)


def _top_n(table: BoundTable) -> Replacement | None:
    top_n = _first_rows(table.query)
    if top_n is None:
        return None
    is_counted = bool(top_n.calls) or table.is_guessed
    settings, use = table.context.settings, table.context.use if is_counted else None
    wanted = top_n.with_default(settings.descends)
    return TopNRows(table.rows.dataset, wanted, use, table.context.settings.compares_bytes())


def _row_count(table: BoundTable) -> Replacement | None:
    used = table.columns
    if not (used.no_values and table.is_of_statement):
        return None
    return MemberRows(table.rows.dataset, used).row_count(table.context.settings.finds_file)


def _extremes(table: BoundTable) -> Replacement | None:
    if not table.are_values_enough:
        return None
    used = table.columns
    rows = MemberRows(table.rows.dataset, used) if used.members else table.rows
    return extreme_rows(rows, table.query, table.context.settings.compares_bytes)


def _value_counts(table: BoundTable) -> Replacement | None:
    if not table.are_values_enough:
        return None
    return value_count_rows(table.rows, table.query, table.context.settings.compares_bytes)


def _limit(table: BoundTable) -> Replacement | None:
    found = _range(table)
    if found is None:
        return None
    is_clear = table.is_first and not table.is_nested
    behind = rows_behind_nulls(table.rows.dataset, found) if is_clear else None
    return behind or _limited(table)


def _limited(table: BoundTable) -> Rows | None:
    found = _range(table)
    return found and LimitedRows(table.rows.dataset, found, table.context.use)


def _range(table: BoundTable) -> LimitedRange | None:
    """Return the rows that LIMIT and OFFSET leave."""
    found = limited_range(table.query)
    # If DuckDB does not preserve the order, an OFFSET may skip any rows.
    is_kept = found is None or not found.skipped or table.context.settings.keeps_order()
    return found if is_kept else None


def _sample(table: BoundTable) -> Replacement | None:
    count = sampled_rows(table.query)
    if not count or not table.is_first:
        return None
    return SampledRows(table.rows.dataset, count, table.context.use)


def _kept(kept: KeptRows, table: BoundTable) -> Replacement:
    """Return the rows of a small table that are kept, with the ranges of the keys of joins."""
    expressions = ranged_keys(kept, join_keys(table.query))
    return kept.with_expressions(expressions) if expressions else kept


def _extreme_filters(table: BoundTable) -> Rows | None:
    """Return rows that are compared with extremes, or have those that the statement computes."""
    uses = extreme_uses(table.query) if are_values_cached(table.rows) else None
    if uses is None or not table.context.settings.compares_bytes():
        return None
    use, query = table.context.use, table.query
    return ExtremeRows(table.rows.dataset, table.columns, uses, query, use, table.is_first)


def _deferred(table: BoundTable) -> Rows | None:
    """Return the rows that pass WHERE, of which DuckDB computes a part, where these are few."""
    is_told = table.context.settings.calls_back and table.is_first
    is_clear = is_told and (table.is_guessed or not table.is_view)
    if not (is_clear and has_many_rows(table.rows.dataset.opened)):
        return None
    filter = None if unpushed_conditions(table.query) else computed_filter(table.query)
    return None if filter is None else computed_rows(table.rows, filter, table.context.use)


def _unpushed(table: BoundTable) -> Rows | None:
    """Return the rows that pass conditions which DuckDB does not push down."""
    conditions = unpushed_conditions(table.query)
    if not conditions or not table.context.settings.compares_bytes():
        return None
    return FilteredRows(table.rows.dataset, table.columns, conditions, table.context.use)


def _scanned(table: BoundTable) -> Replacement:
    """Return what is scanned if no other rewrite applies: all rows that pass WHERE.

    Conditions that DuckDB does not push down are applied if they leave out many rows. Of structs,
    only the members that are used are read. Strings are replaced by codes if DuckDB groups by them,
    and join keys get an expression that tells their range.
    """
    dataset, used, rows = table.rows.dataset, table.columns, table.rows
    deferred = _deferred(table)
    if deferred is not None:
        return deferred
    filtered = _extreme_filters(table) or _unpushed(table)
    if filtered is not None:
        rows = filtered
    elif used != UsedColumns():
        rows = MemberRows(dataset, used)
    if table.takes_encoded_lists:
        rows = rows.with_encoded_lists()
    # Before DuckDB 2.0, which aggregates below joins, groups by strings are quicker.
    rows = table.with_used_columns(rows)
    is_grouped = table.is_of_statement and is_new()
    grouped = group_by_codes(rows, table.query) if is_grouped else rows
    if grouped is not rows:
        return grouped
    expressions = ranged_keys(table.rows, join_keys(table.query))
    if sorted_to := sorted_columns(table.query):
        expressions |= ranged_to_sort(table.rows, sorted_to)
    return rows.with_expressions(expressions) if expressions else rows


# Rewrites that read at most the ends of columns; and those that read values of strings, which are
# cached before.
_FIRST: tuple[Rewrite, ...] = (
    _top_n,  # few rows
    _row_count,  # none
    _extremes,  # two for each column
)
_LATER: tuple[Rewrite, ...] = (
    _value_counts,  # one for each combination of values
    _limit,  # those that LIMIT and OFFSET leave
    _sample,  # those that are drawn
    _scanned,  # all that pass WHERE
)
