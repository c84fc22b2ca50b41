"""The query inside a statement that also does something else: EXPLAIN, CREATE TABLE AS, COPY.

Such statements use the same rows of a table as their query: `EXPLAIN`, `CREATE TABLE … AS`,
`INSERT INTO`, `COPY (…) TO`, and `CREATE TYPE … AS ENUM (…)`, with which a PIVOT begins in DuckDB.

DuckDB parses the query that is found here. So if a pattern matches a statement that has no query,
or has it elsewhere, parsing fails and the statement reads the whole table.
"""

from __future__ import annotations

import re

from duckdb_adapter.statements import MAYBE_SPACE, PART, SPACE


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern in which a blank stands for what is between words, `_` for what may be."""
    names = rf"(?:{PART})(?:{MAYBE_SPACE}\.{MAYBE_SPACE}(?:{PART}))*"
    columns = rf"\({MAYBE_SPACE}(?:{PART})(?:{MAYBE_SPACE},{MAYBE_SPACE}(?:{PART}))*{MAYBE_SPACE}\)"
    text = text.replace(" ", SPACE).replace("_", MAYBE_SPACE)
    text = text.replace("<name>", names).replace("<columns>", f"(?:{columns}{MAYBE_SPACE})?")
    return re.compile(MAYBE_SPACE + text, re.IGNORECASE | re.DOTALL)


_EXPLAIN = _pattern(r"EXPLAIN\b(?: ANALYZE\b)?_(?:\([^()]*\)_)?")
_CREATE = "CREATE(?: OR REPLACE)?(?: (?:TEMP|TEMPORARY))?"
_INSERT = _pattern(
    r"INSERT(?: OR (?:REPLACE|IGNORE))? INTO <name>_<columns>(?:BY (?:NAME|POSITION)\b)?"
)
# What stands in front of the query.
_BEFORE = (_pattern(rf"{_CREATE} TABLE(?: IF NOT EXISTS)? <name>_<columns>AS\b"), _INSERT)
# The query stands in brackets. What is in the outermost brackets is what DuckDB parses.
_AROUND = (
    _pattern(r"COPY_\((?P<query>.*)\)_TO\b"),
    _pattern(rf"{_CREATE} TYPE(?: IF NOT EXISTS)? <name> AS ENUM_\((?P<query>.*)\)_;?_\Z"),
)


def query_in(text: str) -> str:
    """Return the query of a statement; the text itself where it begins with no word that is known.

    Args:
        text: One statement in SQL.
    """
    text = _explained(text)
    for pattern in _BEFORE:
        if found := pattern.match(text):
            return text[found.end() :]
    for pattern in _AROUND:
        if found := pattern.match(text):
            return found["query"]
    return text


def fires_triggers(text: str) -> bool:
    """Whether a statement inserts rows into a table, whose triggers may read any other table.

    Args:
        text: One statement in SQL.
    """
    return _INSERT.match(_explained(text)) is not None


def _explained(text: str) -> str:
    """Return what `EXPLAIN` explains; the text itself where it explains nothing."""
    explained = _EXPLAIN.match(text)
    return text[explained.end() :] if explained else text
