"""The query inside a statement that also does something else: EXPLAIN, CREATE TABLE AS, COPY.

Such statements use the same rows of a table as their query: `EXPLAIN`, `CREATE TABLE … AS`,
`INSERT INTO`, `COPY (…) TO`, and `CREATE TYPE … AS ENUM (…)`, with which a PIVOT begins in DuckDB.

DuckDB parses the query that is found here. So if a pattern matches a statement that has no query,
or has it elsewhere, parsing fails and the statement reads the whole table.
"""

from __future__ import annotations

import re
from functools import cache

from duckdb_adapter.statements import MAYBE_SPACE, PART, SPACE

# The word that a statement begins with.
_FIRST_WORD = re.compile(rf"{MAYBE_SPACE}(\w*)")
_CREATE = "CREATE(?: OR REPLACE)?(?: (?:TEMP|TEMPORARY))?"
_EXPLAIN = r"EXPLAIN\b(?: ANALYZE\b)?_(?:\([^()]*\)_)?"
_INSERT = r"INSERT(?: OR (?:REPLACE|IGNORE))? INTO <name>_<columns>(?:BY (?:NAME|POSITION)\b)?"
# By their first word, what stands in front of the query.
_BEFORE = {
    "CREATE": rf"{_CREATE} TABLE(?: IF NOT EXISTS)? <name>_<columns>AS\b",
    "INSERT": _INSERT,
}
# The query stands in brackets. What is in the outermost brackets is what DuckDB parses.
_AROUND = {
    "COPY": r"COPY_\((?P<query>.*)\)_TO\b",
    "CREATE": rf"{_CREATE} TYPE(?: IF NOT EXISTS)? <name> AS ENUM_\((?P<query>.*)\)_;?_\Z",
}


def query_in(text: str) -> str:
    """Return the query of a statement; the text itself where it begins with no word that is known.

    Args:
        text: One statement in SQL.
    """
    text = _explained(text)
    word = _first_word(text)
    if word in _BEFORE and (found := _pattern(_BEFORE[word]).match(text)):
        return text[found.end() :]
    if word in _AROUND and (found := _pattern(_AROUND[word]).match(text)):
        return found["query"]
    return text


def query_of_view(text: str) -> str | None:
    """Return the query of a statement that creates a view; None where that names the columns.

    Args:
        text: The statement, as DuckDB writes it.
    """
    found = _pattern(rf"{_CREATE} VIEW(?: IF NOT EXISTS)? <name> AS\b").match(text)
    return None if found is None else text[found.end() :]


def fires_triggers(text: str) -> bool:
    """Whether a statement inserts rows into a table, whose triggers may read any other table.

    Args:
        text: One statement in SQL.
    """
    text = _explained(text)
    return _first_word(text) == "INSERT" and _pattern(_INSERT).match(text) is not None


def _explained(text: str) -> str:
    """Return what `EXPLAIN` explains; the text itself where it explains nothing."""
    explained = _pattern(_EXPLAIN).match(text) if _first_word(text) == "EXPLAIN" else None
    return text[explained.end() :] if explained else text


def _first_word(text: str) -> str:
    """Return the word that a statement begins with in capitals; empty where it begins with none."""
    found = _FIRST_WORD.match(text)
    return found[1].upper() if found else ""


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern in which a blank stands for what is between words, `_` for what may be.

    Each takes a millisecond to compile, so that only the patterns of statements that occur are.
    """
    names = rf"(?:{PART})(?:{MAYBE_SPACE}\.{MAYBE_SPACE}(?:{PART}))*"
    columns = rf"\({MAYBE_SPACE}(?:{PART})(?:{MAYBE_SPACE},{MAYBE_SPACE}(?:{PART}))*{MAYBE_SPACE}\)"
    text = text.replace(" ", SPACE).replace("_", MAYBE_SPACE)
    text = text.replace("<name>", names).replace("<columns>", f"(?:{columns}{MAYBE_SPACE})?")
    return re.compile(MAYBE_SPACE + text, re.IGNORECASE | re.DOTALL)
