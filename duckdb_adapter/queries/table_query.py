"""A statement that selects from a Lance table, parsed on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import ColumnUses, uses_of
from duckdb_adapter.queries.nested import statement_in, with_stable_names
from duckdb_adapter.queries.parsing import parse
from duckdb_adapter.queries.query_texts import fires_triggers
from duckdb_adapter.queries.scan_calls import SCAN, ScanCall
from duckdb_adapter.queries.table_reads import TableRead, only_read
from duckdb_adapter.queries.trees import classes_in, is_table, is_unmodified_table
from lancefs.datafile.fields import BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR
from lancefs.forks import cached_property

# Most texts, and queries, for which what they say is cached.
MAX_TEXTS = 64
# The types of columns of blobs, which are stored as something else.
_DESCRIPTORS = (BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR)


P = ParamSpec("P")
T = TypeVar("T")


def kept_by_query(
    function: Callable[Concatenate[TableQuery, P], T],
) -> Callable[Concatenate[TableQuery, P], T]:
    """Decorate a function of a query so that its answers are kept as long as the query is.

    Args:
        function: Its other arguments are hashable.
    """

    @wraps(function)
    def answer(query: TableQuery, /, *others: P.args, **named: P.kwargs) -> T:
        key = (function, *others)
        if key not in query.answers:
            query.answers[key] = function(query, *others, **named)
        found: T = query.answers[key]
        return found

    return answer


class ReadView(Protocol):
    """A view that is all of a table."""

    def is_read_by(self, node: Mapping[str, Any]) -> bool:
        """Whether a node of a syntax tree is the view."""
        ...


class TableQuery:
    """A statement, and the table that it names.

    What is found holds for the table that the statement selects from, and for no other use of it.

    Args:
        text: The whole statement.
        name: The table, as it stands in the text.
        alias: What the table is called where the statement gives it no name.
        schema: The columns of the table.
        view: The view through which the table is read, if the statement names that.
        call: The arguments of `lance_scan`, if the name stands for a call of it.

    Attributes:
        answers: What functions found out about it, see `kept_by_query`.
    """

    def __init__(
        self,
        text: str,
        name: str,
        alias: str,
        schema: pa.Schema,
        view: ReadView | None = None,
        call: ScanCall | None = None,
    ) -> None:
        self.text = text
        self.name = name
        self.schema = schema
        self.answers = dict[tuple[Any, ...], Any]()
        self._alias = alias if call is None else SCAN
        self._view = view
        self._call = call

    def names(self, node: Mapping[str, Any]) -> bool:
        """Whether what a SELECT selects from is the table, or a view or call that is all of it."""
        if self._call is not None:
            return self._call.is_made_by(node)
        if self._view is None:
            return is_table(node, self.name)
        return is_unmodified_table(node) and self._view.is_read_by(node)

    @cached_property
    def statement_root(self) -> Mapping[str, Any] | None:
        """The root node of the whole text; None where that is no single SELECT, or is long."""
        return parse(with_stable_names(self.text))

    @cached_property
    def query_root(self) -> Mapping[str, Any] | None:
        """The root node of the innermost query, with what those around it use of its rows.

        None as for `statement_root`. It says which rows the statement uses if the table is named
        once, see `queries.nested`.
        """
        return None if self.statement_root is None else statement_in(self.statement_root)

    @property
    def is_nested(self) -> bool:
        """Whether the text is more than the query, and may read the table elsewhere, too."""
        return self.query_root is not self.statement_root or fires_triggers(self.text)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The columns of the table by their names in lower case; none where two are the same."""
        columns = {fold(column): column for column in self.schema.names}
        return columns if len(columns) == len(self.schema) else {}

    @property
    def plain_select(self) -> Mapping[str, Any] | None:
        """The query, if it is a SELECT without common table expressions, whatever it selects from.

        None also where two columns have the same name in lower case.
        """
        node = self.query_root if self.columns else None
        if node is None or node["type"] != "SELECT_NODE" or node["cte_map"]["map"]:
            return None
        return node

    @cached_property
    def table_select(self) -> Mapping[str, Any] | None:
        """The query, where it selects from the table and nothing else; None as for `plain_select`.

        Its expressions may have subqueries, which may read the table again.
        """
        node = self.plain_select
        return node if node is not None and self.names(node["from_table"]) else None

    @property
    def is_by_name(self) -> bool:
        """Whether the table itself is named, and neither a view nor a call stands for it."""
        return self._view is None and self._call is None

    @cached_property
    def table_read(self) -> TableRead | None:
        """The SELECT that reads the table, also where the text selects from others.

        It may be bound after others that use the name, so that what it says holds only if the
        statement uses the table once.
        """
        if self.table_select is not None:
            return TableRead(self.table_select, self.table_select["from_table"])
        return None if self.statement_root is None else only_read(self.statement_root, self.names)

    def table_names(self, source: Mapping[str, Any]) -> set[str]:
        """Return what columns of the table can be qualified with, in lower case.

        Args:
            source: The table in what a SELECT selects from.
        """
        return {fold(self.alias_of(source))}

    def alias_of(self, source: Mapping[str, Any]) -> str:
        """Return what columns of the table can be qualified with; see `table_names`."""
        alias: str = source["alias"] or self._alias
        return alias

    @cached_property
    def uses(self) -> ColumnUses | None:
        """How the query uses columns; None where it may use more than its text names."""
        return None if self.table_select is None else self.uses_in(self.table_select)

    def uses_in(self, select: Mapping[str, Any]) -> ColumnUses | None:
        """Return how a SELECT from the table uses columns; see `uses`."""
        return uses_of(select, self.columns, self._alias)

    @cached_property
    def structs(self) -> Mapping[str, pa.StructType]:
        """The structs of which members can be read alone, by the names of columns: no blobs."""
        return {
            field.name: field.type
            for field in self.schema
            if pa.types.is_struct(field.type) and field.type not in _DESCRIPTORS
        }

    def reads_alone(self, columns: Collection[str]) -> bool:
        """Whether the query uses the table alone, and columns outside of WHERE.

        Args:
            columns: Those that have to be among the latter; any will do if there are none.
        """
        node = self.table_select
        if node is None:
            return False
        others = {**node, "where_clause": None}
        shown, tested = classes_in(others), classes_in(node["where_clause"])
        if "SUBQUERY" in shown | tested or shown.isdisjoint(("COLUMN_REF", "STAR")):
            return False
        uses = self.uses_in(others)
        return uses is None or all(fold(column) in uses for column in columns)
