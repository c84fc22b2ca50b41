"""Whether a statement takes lists right whose strings come with dictionaries.

`list_has_any` and `list_has_all` of DuckDB 2.0.1, and the operators for them, compare the wrong
strings of such lists. A view or a macro may call them without the text saying so. So the text must
be one SELECT of the table, and call only what is listed here.
"""

from __future__ import annotations

from duckdb_adapter.queries.function_names import MAKING_ONE_VALUE, OF_VALUES
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import expressions_in, is_dotted

# Functions of lists that were compared with what they are of plain strings.
_OF_LISTS = {
    *("unnest", "array_length", "list_contains", "array_contains", "list_position"),
    *("array_position", "array_to_string", "list_aggregate", "list_distinct", "list_unique"),
    *("list_sort", "list_reverse", "list_extract", "array_extract", "list_slice", "array_slice"),
    *("list_max", "list_min", "list_first", "list_last", "struct_extract", "coalesce"),
}
_OPERATORS = {"+", "-", "*", "/", "//", "%", "||", "~~", "!~~", "~~*", "!~~*"}
_KNOWN = _OF_LISTS | _OPERATORS | OF_VALUES | MAKING_ONE_VALUE


def takes_encoded_lists(query: TableQuery) -> bool:
    """Whether a statement calls no function that could take encoded lists wrong.

    Args:
        query: The statement with the table.
    """
    root = query.statement_root
    if root is None or query.table_select is None:
        return False
    calls = [each for each in expressions_in(root) if each["class"] == "FUNCTION"]
    return all(call["function_name"].lower() in _KNOWN and not is_dotted(call) for call in calls)
