"""The columns of a table whose values a statement looks for in a column of another table.

That is `FROM a JOIN b ON a.k = b.id`, also SEMI JOIN, `WHERE a.k IN (SELECT id FROM b …)` and
`WHERE EXISTS (FROM b WHERE b.id = a.k …)`: rows of `a` whose `k` no row of `b` has as its `id` make
no difference. In place of `b` there can be a query that shows its `id`. It is the text that tells,
so it holds only if the statement uses both tables once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.joins import equal_columns, inner_joins, join_conditions
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.table_reads import (
    NamedQuery,
    TableRead,
    count_places,
    plain_name,
    sources_of,
    with_named,
)
from duckdb_adapter.queries.trees import (
    NamedColumns,
    changes_columns,
    classes_in,
    shows_rows,
    terms_of,
)

# What `EXISTS (SELECT …)` may show: no aggregate, which makes a row of none.
_SHOWN = {"CONSTANT", "COLUMN_REF", "STAR"}
# The side of a join whose rows come out only with those that they match.
_MATCHED = {"LEFT": "right", "RIGHT": "left"}


class OtherTable(Protocol):
    """A table that a statement may join with another one."""

    @property
    def columns(self) -> Mapping[str, str]:
        """Its columns by their names in lower case."""
        ...

    def names(self, node: Mapping[str, Any]) -> bool:
        """Whether what a SELECT selects from is this table."""
        ...

    def table_names(self, source: Mapping[str, Any]) -> set[str]:
        """Return what its columns can be qualified with, in lower case."""
        ...


class OtherSource(NamedTuple):
    """A part of a FROM clause, as another table.

    Attributes:
        source: Its node.
        alias: What its columns are qualified with.
        columns: Those that the text names, by their names in lower case.
    """

    source: Mapping[str, Any]
    alias: str
    columns: Mapping[str, str]

    def names(self, node: Mapping[str, Any]) -> bool:
        """Whether a node is this one."""
        return node is self.source

    def table_names(self, source: Mapping[str, Any]) -> set[str]:
        """Return what columns can be qualified with, in lower case."""
        return {fold(self.alias)}

    @property
    def named_columns(self) -> NamedColumns:
        """The columns, as the text names them."""
        return NamedColumns(self.columns, {fold(self.alias)})


@kept_by_query
def joined_columns(ours: TableQuery, theirs: TableQuery) -> list[tuple[str, str]]:
    """Return columns of a table whose values have to be in columns of another one.

    Args:
        ours: The statement with the table.
        theirs: The same statement with the other table.

    Returns:
        The column of each. Rows with other values, or none, make no difference.
    """
    return columns_joined_with(ours, theirs) if ours.text == theirs.text else []


def columns_joined_with(
    ours: TableQuery, other: OtherTable, read: TableRead | None = None
) -> list[tuple[str, str]]:
    """Return columns of a table whose values have to be in columns of another one.

    Args:
        ours: The statement with the table.
        other: The other table.
        read: The SELECT that reads the first one; None for the only one.

    Returns:
        As for `joined_columns`.
    """
    root, read = ours.statement_root, read or ours.table_read
    if (
        root is None
        or read is None
        or not ours.columns
        or not other.columns
        or read.select.get("sample")
    ):
        return []
    return list(dict.fromkeys(_Search(root, read, ours, other).pairs()))


class _Search:
    """The search in a text.

    Args:
        root: Its root node.
        read: The SELECT that reads the first table.
        ours: The statement with this table.
        theirs: The other table.
    """

    def __init__(
        self, root: Mapping[str, Any], read: TableRead, ours: TableQuery, theirs: OtherTable
    ) -> None:
        self._root = root
        self._read = read
        self._ours = NamedColumns(ours.columns, ours.table_names(read.source))
        self._theirs = theirs

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the columns."""
        if count_places(self._root, self._theirs.names) != 1:
            return
        yield from self._beside()
        yield from self._semi_joined()
        where = self._read.select.get("where_clause")
        for term in terms_of(where) if where else ():
            if term["class"] == "SUBQUERY":
                yield from self._in_subquery(term)

    def _beside(self) -> Iterator[tuple[str, str]]:
        """Yield columns that are joined with what stands in the same FROM clause."""
        clause = self._read.select["from_table"]
        found = self._found_in(clause, self._read.known)
        if found is None:
            return
        other, columns = found
        for term in join_conditions(self._read.select):
            yield from self._equal(term, columns, clause)
        for join in inner_joins(clause):
            if _has(join["left"], self._read.source) != _has(join["left"], other):
                yield from self._of_using(join, columns)
        for join in joins_in(clause):
            side = _MATCHED.get(join["join_type"], "")
            if side and _has(join[side], self._read.source) and not _has(join[side], other):
                yield from self._matched(join, columns, clause)

    def _semi_joined(self) -> Iterator[tuple[str, str]]:
        """Yield columns that are joined with what stands behind SEMI JOIN."""
        clause = self._read.select["from_table"]
        for join in joins_in(clause):
            if join["join_type"] == "SEMI" and _has(join["left"], self._read.source):
                found = self._found_in(join["right"], self._read.known)
                if found is not None:
                    yield from self._matched(join, found[1], clause)

    def _matched(
        self, join: Mapping[str, Any], columns: NamedColumns, clause: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the columns that a join says are equal."""
        for term in terms_of(join["condition"]) if join.get("condition") else ():
            yield from self._equal(term, columns, clause)
        yield from self._of_using(join, columns)

    def _of_using(
        self, join: Mapping[str, Any], columns: NamedColumns
    ) -> Iterator[tuple[str, str]]:
        """Yield the columns of the same names by which a join joins the tables."""
        if _has_outer(join["left"]) or _has_outer(join["right"]):
            return
        for name in map(fold, join.get("using_columns") or ()):
            if name in self._ours.by_name and name in columns.by_name:
                yield self._ours.by_name[name], columns.by_name[name]

    def _equal(
        self, term: Mapping[str, Any], columns: NamedColumns, clause: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the columns that a condition says are equal, of tables of a FROM clause."""
        sides = equal_columns(term)
        for one, another in (sides, sides[::-1]) if sides else ():
            ours = _find(one, self._ours, columns)
            their = _find_all_of(another, columns, self._ours, clause)
            if ours is not None and their is not None:
                yield ours, their

    def _in_subquery(self, term: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield columns of which a condition says that a subquery has their values."""
        node = term["subquery"]["node"]
        if term["subquery_type"] == "ANY" and term["comparison_type"] == "COMPARE_EQUAL":
            ours, shown = self._ours.find(term["child"]), self._shown_by(node, self._read.known)
            if ours is not None and len(node.get("select_list", ())) == 1 and shown:
                yield from ((ours, their) for their in shown.values())
        elif term["subquery_type"] == "EXISTS" and node["type"] == "SELECT_NODE":
            is_plain = self._theirs.names(node["from_table"]) and shows_rows(node)
            if is_plain and classes_in(node["select_list"]) <= _SHOWN and node["where_clause"]:
                names = self._theirs.table_names(node["from_table"])
                columns = NamedColumns(self._theirs.columns, names)
                for inner in terms_of(node["where_clause"]):
                    yield from self._correlated(inner, columns)

    def _correlated(
        self, term: Mapping[str, Any], columns: NamedColumns
    ) -> Iterator[tuple[str, str]]:
        """Yield the columns that a condition of a subquery says are equal, one of them of ours."""
        sides = equal_columns(term)
        for one, another in (sides, sides[::-1]) if sides else ():
            # A name alone means a column of the subquery's table, where that has one.
            their = _find(another, columns, self._ours)
            ours = None if columns.find(one) else _find(one, self._ours, columns)
            if ours is not None and their is not None:
                yield ours, their

    def _found_in(
        self, clause: Mapping[str, Any], known: Mapping[str, NamedQuery]
    ) -> tuple[Mapping[str, Any], NamedColumns] | None:
        """Return what in a FROM clause is the other table, or shows columns of it, and which ones.

        The values of the columns are those of the table, or some of them, or missing.
        """
        for source in sources_of(clause):
            if self._theirs.names(source):
                names = self._theirs.table_names(source)
                return source, NamedColumns(self._theirs.columns, names)
            if source.get("column_name_alias"):
                continue
            shown, named = None, known.get(plain_name(source))
            if named is not None:
                if not named.renames and self._is_used_once(plain_name(source)):
                    shown = self._shown_by(named.query, named.known)
            elif source["type"] == "SUBQUERY":
                shown = self._shown_by(source["subquery"]["node"], known)
            if shown:
                alias = fold(source["alias"] or source.get("table_name", ""))
                return source, NamedColumns(shown, {alias})
        return None

    def _shown_by(
        self, node: Mapping[str, Any], known: Mapping[str, NamedQuery]
    ) -> Mapping[str, str]:
        """Return the columns of the other table that a query shows, by the names that they get."""
        if node["type"] != "SELECT_NODE":
            return {}
        clause = node["from_table"]
        found = self._found_in(clause, with_named(known, node))
        if found is None:
            return {}
        other, columns = found
        shown, names = dict[str, str](), Counter[str]()
        for each in node["select_list"]:
            if each["class"] == "STAR":
                if other is not clause or changes_columns(each):
                    return {}
                names.update(list(columns.by_name))
                shown |= columns.by_name
                continue
            name = fold(each["alias"] or each.get("column_names", ("",))[-1])
            names[name] += 1
            column = _find_all_of(each, columns, columns, clause)
            if column is not None:
                shown[name] = column
        return {name: column for name, column in shown.items() if names[name] == 1}

    def _is_used_once(self, name: str) -> bool:
        """Whether one place of the text alone uses a common table expression."""
        places = count_places(self._root, lambda node: plain_name(node) == name)
        return places == 1


def _find(expression: Mapping[str, Any], of: NamedColumns, others: NamedColumns) -> str | None:
    """Return the column of a table that an expression is, and nothing of another one."""
    path = [fold(part) for part in expression.get("column_names", ())]
    # What stands before a column may be a struct of the other table.
    is_clear = len(path) < 2 or of is others or path[0] not in others.by_name
    return of.find(expression) if is_clear else None


def _find_all_of(
    expression: Mapping[str, Any],
    of: NamedColumns,
    others: NamedColumns,
    clause: Mapping[str, Any],
) -> str | None:
    """Return the column that has all values of an expression but NULL; None where it may not.

    After an outer join with USING, the name alone means the columns of both of its tables.
    """
    is_alone = len(expression.get("column_names", ())) == 1
    return None if is_alone and _has_outer(clause) else _find(expression, of, others)


def joins_in(clause: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the joins of a FROM clause."""
    if clause["type"] == "JOIN":
        yield clause
        yield from joins_in(clause["left"])
        yield from joins_in(clause["right"])


def _has(clause: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
    """Whether a part of a FROM clause has a certain table in it."""
    return any(each is source for each in sources_of(clause))


def _has_outer(clause: Mapping[str, Any]) -> bool:
    """Whether a FROM clause has joins that are not inner ones."""
    return any(join["join_type"] != "INNER" for join in joins_in(clause))
