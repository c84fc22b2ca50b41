"""The kinds of statements that a wrapped connection has to know about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from duckdb_adapter.identifiers import literal, quoted
from duckdb_adapter.paths import parse_name

# Patterns of what may stand between words, comments too, none or some, and of a name or text. They
# give nothing back of what they match, which would take long where nothing matches.
_GAP = r"(?:--[^\n]*+(?:\n|$)|/\*(?:[^*]|\*(?!/))*+\*/|\s)"
MAYBE_SPACE, SPACE = f"{_GAP}*+", f"{_GAP}++"
_BEGIN = rf"(?i){MAYBE_SPACE}(?:BEGIN|START)\b"
PART = r"""'(?:[^']|'')*+'|"(?:[^"]|"")*+"|[^\W\d]\w*+"""
# Patterns that few statements need are compiled by `re` when they are first used, and kept by it:
# to compile them all would take several milliseconds of each new process.
_CHANGE = (
    r"""(?xi)\b(?: CREATE (?:\ OR\ REPLACE)? (?:\ (?:TEMP|TEMPORARY|PERSISTENT))?
            \ (?:TABLE|VIEW) (?:\ IF\ NOT\ EXISTS)?
        | INSERT (?:\ OR\ (?:REPLACE|IGNORE))? \ INTO
        | DELETE\ FROM | UPDATE | MERGE\ INTO | TRUNCATE (?:\ TABLE)?
        | (?:ALTER|DROP) \ (?:TABLE|VIEW) (?:\ IF\ EXISTS)?
    ) {maybe} (?P<name> (?:{part}) (?: \s*\.\s* (?:{part}) )* )""".replace("{part}", PART)
    .replace("{maybe}", MAYBE_SPACE)
    .replace(r"\ ", SPACE)
)
# A name with a version, which DuckDB's grammar lets tables of catalogs have.
_AT = (
    rf"(?i)(?P<name>{PART}){SPACE}(?:AS{SPACE}(?:{PART}){SPACE})?AT{MAYBE_SPACE}"
    rf"\({MAYBE_SPACE}(?P<unit>VERSION|TIMESTAMP){MAYBE_SPACE}=>"
)
# Where COPY writes to, at the end of its text, and the options that may follow.
_COPY_TO = (
    rf"(?is)\bTO{MAYBE_SPACE}(?P<name>'(?:[^']|'')*+'){MAYBE_SPACE}"
    rf"(?:\((?P<options>[^()]*)\){MAYBE_SPACE})?;?{MAYBE_SPACE}\Z"
)
# What DuckDB 1.5 puts in the place of a parameter of a macro when the macro is created.
_MACRO_PARAMETER = "0_macro_parameters"
_NO_ALIAS = r'(?s)Referenced table "(?P<alias>.+?)" not found!'
_NO_TIME_TRAVEL = "Catalog type does not support time travel"
# Statements that change tables, by DuckDB's names.
_CHANGES = {"CREATE", "INSERT", "DELETE", "UPDATE", "MERGE_INTO", "ALTER", "DROP"}
# What DuckDB says where the target of such a statement is none of its own tables.
_NO_TARGET = r"does not exist|base tables?\b|is not an? table|attached in read-only mode"


def kind_of(statement: Any) -> str:
    """Return DuckDB's name for the type of a statement; empty for what is no statement."""
    return str(getattr(getattr(statement, "type", None), "name", "")).upper()


def begins_transaction(statement: Any) -> bool:
    """Whether a statement of the type TRANSACTION begins one, and does not end it."""
    return re.match(_BEGIN, statement.query) is not None


def are_made_at_once(statements: Sequence[Any]) -> bool:
    """Whether statements are those that DuckDB makes of one, to be run in one transaction.

    `CREATE TABLE … AS PIVOT … ON c` of DuckDB 1.5 first asks for the values of the column. The
    first and the last of these statements are about the transaction, and none has a text.
    """
    return (
        len(statements) > 2
        and not any(statement.query for statement in statements)
        and {kind_of(statements[0]), kind_of(statements[-1])} <= {"TRANSACTION", "SET"}
    )


def target_of(statement: Any) -> list[str]:
    """Return the parts of the name of the table that a statement changes; empty if unknown."""
    match = re.search(_CHANGE, statement.query) if kind_of(statement) in _CHANGES else None
    return [] if match is None else [_plain(one) for one in re.findall(PART, match["name"])]


def created_table(statement: Any) -> str | None:
    """Return the name of a Lance table that a statement would create; None where it does not.

    DuckDB would make a table of its own of this name, in the database of the connection.
    """
    target = target_of(statement) if kind_of(statement) == "CREATE" else []
    if len(target) != 1 or re.search(r"\bVIEW\b", statement.query.partition(target[0])[0], re.I):
        return None
    candidates = parse_name(target[0])
    is_lance = any(
        not one.lacks_suffix or (one.is_local and one.may_be_table()) for one in candidates
    )
    return target[0] if is_lance else None


def copied_table(statement: Any) -> str | None:
    """Return the name of a Lance table that `COPY … TO` would write; None where it does not.

    DuckDB takes no ending but its own for a format, and would make a CSV file of this name. With a
    FORMAT, which extensions have others of, the statement says what it writes.
    """
    match = re.search(_COPY_TO, statement.query) if kind_of(statement) == "COPY" else None
    if match is None or re.search(r"(?i)\bFORMAT\b", match["options"] or ""):
        return None
    name = _plain(match["name"])
    return name if any(not one.lacks_suffix for one in parse_name(name)) else None


def is_refused_change(statement: Any, message: str) -> bool:
    """Whether DuckDB refused to change a table because it is none of its own."""
    return kind_of(statement) in _CHANGES and re.search(_NO_TARGET, message) is not None


def refusal(name: str, statement: Any) -> str:
    """Return why a change of a Lance table is refused."""
    kind = kind_of(statement).replace("_", " ")
    return (
        f"Invalid Input Error: {name}: lancefs only reads Lance tables, and refuses this {kind}; "
        "write to the table with pylance, or to a table of DuckDB"
    )


def versioned_names(statement: Any, message: str) -> dict[str, str]:
    """Return the names that DuckDB refused to read at a version, each with what to write in place.

    Args:
        statement: The statement.
        message: DuckDB's.
    """
    text = getattr(statement, "query", None)
    if _NO_TIME_TRAVEL not in message or not isinstance(text, str):
        return {}
    found = {}
    for match in re.finditer(_AT, text):
        name, unit = _plain(match["name"]), match["unit"].upper()
        path = name.replace("'", "''")
        advice = f"'{path}@v7' or lance_scan('{path}', version := 7)"
        if unit == "TIMESTAMP":
            advice = f"lance_scan('{path}', as_of := TIMESTAMP '2030-01-01 00:00:00')"
        found[name] = (
            f"Invalid Input Error: {name}: DuckDB knows AT ({unit} => …) for tables of a catalog "
            f"only; write {advice}"
        )
    return found


def parameter_advice(statement: Any, message: str) -> str | None:
    """Say how a macro may give its parameters to one of our functions; None of other statements.

    Args:
        statement: The statement.
        message: What is wrong with it.
    """
    if kind_of(statement) != "CREATE" or _MACRO_PARAMETER not in message:
        return None
    return (
        "Invalid Input Error: this database of DuckDB reads the tables of a macro when the macro "
        "is created, and its parameters have no values then; write the call as a text, such as "
        "FROM query('FROM lance_scan(''' || path || ''')'), or use DuckDB 2.0.1"
    )


def moving_time_advice() -> str:
    """Say how a table is read as of a time that is another one whenever DuckDB asks for it."""
    return (
        "Invalid Input Error: as_of is another time whenever this database of DuckDB looks for "
        "the table; SET VARIABLE moment = now() before, and write as_of := getvariable('moment')"
    )


def unknown_alias(message: str) -> str | None:
    """Return what a statement calls a table that DuckDB does not find; None of other messages."""
    match = re.search(_NO_ALIAS, message)
    return None if match is None else match["alias"]


def alias_advice(name: str, alias: str) -> str:
    """Say how a table that is named by its path gets a short name.

    Args:
        name: As it stands in SQL.
        alias: The short name.
    """
    return (
        f"Invalid Input Error: {name}: this database of DuckDB knows the table by its whole name "
        f"only; write FROM {literal(name)} AS {quoted(alias)}"
    )


def _plain(part: str) -> str:
    """Return an identifier without its quotes."""
    quote = part[0]
    return part[1:-1].replace(quote * 2, quote) if quote in "'\"" else part
