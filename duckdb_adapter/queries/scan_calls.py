"""Calls of `lance_scan` in the text of a query.

The macro encodes its arguments in a table name, which DuckDB then asks us to resolve. A call in the
text belongs to that name if its arguments, as far as they are constants, are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from duckdb_adapter.queries.trees import constant_text

SCAN = "lance_scan"
# Arguments that change nothing about the rows and columns of the version that they name.
_OF_VERSION = {"path", "version", "tag", "branch", "as_of", "use_index", "storage_options"}
_NO_NUMBERS = "WITHOUT_ORDINALITY"
_PLAIN = ("STRING", "INTEGER", "BOOLEAN")


class ScanCall(NamedTuple):
    """A call of `lance_scan` that stands for all rows and columns of a version.

    Attributes:
        arguments: Its arguments, without those that are NULL.
        parameters: The names of all parameters, in their order.
    """

    arguments: Mapping[str, Any]
    parameters: Sequence[str]

    def is_made_by(self, node: Mapping[str, Any]) -> bool:
        """Whether what a query selects from is a call with these arguments."""
        if node["type"] != "TABLE_FUNCTION" or node["column_name_alias"] or node.get("sample"):
            return False
        call = node["function"]
        if call["class"] != "FUNCTION" or _path_of(call) != [SCAN]:
            return False
        if node.get("with_ordinality", _NO_NUMBERS) != _NO_NUMBERS:
            return False
        given = dict[str, str | None]()
        for argument, parameter in zip(call["arguments"], self.parameters, strict=False):
            name = (argument.get("name") or parameter).lower()
            given[name] = constant_text(argument["expression"], *_PLAIN)
        return given == {name: _text(value) for name, value in self.arguments.items()}


def call_of(arguments: Mapping[str, Any], parameters: Sequence[str]) -> ScanCall | None:
    """Return the call of `lance_scan` with some arguments; None where it leaves rows out.

    Also where it adds columns, or its path is no text.

    Args:
        arguments: By their names; some may be NULL.
        parameters: The names of all parameters, in their order.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    is_whole = isinstance(given.get("path"), str) and given.keys() <= _OF_VERSION
    return ScanCall(given, parameters) if is_whole else None


def _path_of(call: Mapping[str, Any]) -> list[str]:
    qualified: list[str] = call.get("qualified_name", {}).get("path", [])
    return [part.lower() for part in qualified]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
