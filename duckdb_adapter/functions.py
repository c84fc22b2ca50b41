"""Our SQL functions: table macros whose body is a table name that encodes their arguments.

`lance_versions('t.lance')` expands to `query_table('lance_versions {"path": "t.lance"}')`. No table
has such a name, so DuckDB asks for it as it asks for a path, and the answer is Arrow data. In the
name, back quotes stand for double quotes, which mean something to `query_table`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter import metadata, searches
from duckdb_adapter.duckdb_types import readable_table
from duckdb_adapter.identifiers import quoted
from duckdb_adapter.open_names import NamedTable, find_table, open_tables
from duckdb_adapter.patterns import expand
from duckdb_adapter.queries.scan_calls import SCAN, ScanCall, call_of
from duckdb_adapter.searches import Arguments
from duckdb_adapter.sources.unions import TableUnion
from duckdb_adapter.storage import Storage
from lancefs.arguments import options_of
from lancefs.lance_dataset import LanceDataset
from lancefs.table.per_version import PerVersion
from lancefs.table.row_metadata import ROW_ID, ROW_METADATA

FunctionRows: TypeAlias = LanceDataset | TableUnion | pa.Table

# Answers that relations of Python hold, by what was asked of the version: DuckDB asks when a
# relation is made, and each time that it is run.
_HELD = PerVersion[WeakValueDictionary[Hashable, pa.Table]](lambda _: WeakValueDictionary())

# What stands before the name in DuckDB's message that there is no such table.
_NO_TABLE = ("Table with name ", 'Table with name "')


class Function(NamedTuple):
    """A function in SQL.

    Attributes:
        name: As it is called.
        parameters: Their names; all but the first have a default.
        description: What it returns, for `duckdb_functions()`.
        example: A call.
        answer: What it does with the arguments that were given.
    """

    name: str
    parameters: tuple[str, ...]
    description: str
    example: str
    answer: Callable[[Arguments, Storage], FunctionRows]

    @property
    def body(self) -> str:
        """The body of the macro that `statement` defines."""
        members = ", ".join(f"'{name}': {quoted(name)}" for name in self.parameters)
        values = f"CAST(system.main.to_json({{{members}}}) AS VARCHAR)"
        arguments = f"system.main.replace({values}, '`', '\\u0060')"
        key = f"'\"{self.name} ' || system.main.replace({arguments}, '\"', '`') || '\"'"
        return f"SELECT * FROM system.main.query_table({key})"

    @property
    def statement(self) -> str:
        """SQL that defines the macro for one connection."""
        first, *others = map(quoted, self.parameters)
        parameters = ", ".join([first, *(f"{name} := NULL" for name in others)])
        return f"CREATE OR REPLACE TEMP MACRO {self.name}({parameters}) AS TABLE {self.body}"


def call(name: str, storage: Storage) -> FunctionRows | None:
    """Answer a name that stands for a call of one of the functions; None where it is another.

    Args:
        name: What `query_table` was given.
        storage: Gives the storage options for calls that give none.

    Raises:
        LanceError: The table, or what was asked of it, is not there or cannot be read.
        ValueError: The arguments contradict each other.
    """
    if not is_call(name):
        return None
    head, arguments = name.partition(" ")[0], _arguments_of(name)
    function = BY_NAME[head]
    if arguments.get("path") is None:
        raise ValueError(f"{head}: the path of a table was expected, not NULL")
    given = options_of(arguments.get("storage_options"))
    if given:
        storage = Storage(given, storage.rules, storage.use_index, storage.pins)
    return function.answer(arguments, storage)


def is_call(name: str) -> bool:
    """Whether a name stands for a call of one of the functions."""
    head, _, text = name.partition(" ")
    return head in BY_NAME and text.startswith("{")


@lru_cache(maxsize=64)
def scan_call(name: str) -> ScanCall | None:
    """Return the call of `lance_scan` that a name stands for; None for others.

    Also for one that does not stand for all rows and columns of a version.
    """
    if not is_call(name) or not name.startswith(f"{SCAN} "):
        return None
    return call_of(_arguments_of(name), BY_NAME[SCAN].parameters)


def differ_in_time(name: str, other: str) -> bool:
    """Whether two names stand for one call at different times."""
    if name.partition(" ")[0] != other.partition(" ")[0]:
        return False
    ours, theirs = dict(_arguments_of(name)), dict(_arguments_of(other))
    is_timed = ours.pop("as_of", None) != theirs.pop("as_of", None)
    return is_timed and ours == theirs


def _arguments_of(name: str) -> Arguments:
    """Return the arguments of the call that a name stands for, by their names."""
    arguments: Arguments = json.loads(name.partition(" ")[2].replace("`", '"'))
    return arguments


def find_call(message: str) -> str | None:
    """Find the name that stands for a call in DuckDB's message that there is no such table."""
    for head in BY_NAME:
        before, found, rest = message.partition(f"{head} {{`")
        if found and before.endswith(_NO_TABLE):  # and not within the name of a table
            text = "{`" + rest
            _, end = json.JSONDecoder().raw_decode(text.replace("`", '"'))
            return f"{head} {text[:end]}"
    return None


def find_rows(name: str, storage: Storage) -> LanceDataset | TableUnion | None:
    """Answer a name that stands for a table, or a pattern that several match; None for others.

    Args:
        name: As it stands in SQL.
        storage: Gives the storage options.

    Raises:
        LanceError: There are tables, but they cannot be read; or there is none of a name that is
            certainly ours.
        ValueError: What names the version is not a ref.
    """
    matched = expand(name, storage, is_claimed=False)
    if matched is None:
        table = find_table(name, storage)
        return None if table is None else table.dataset
    tables = open_tables(matched, storage)
    named = [(name, table.dataset) for name, table in zip(matched, tables, strict=True)]
    return TableUnion(named, False, None)


def _open(arguments: Arguments, storage: Storage) -> NamedTable:
    path = arguments["path"]
    if not isinstance(path, str):
        raise ValueError(f"the path of one table was expected, not {path!r}")
    (table,) = _open_all([path], arguments, storage)
    return table


def _open_all(paths: Sequence[str], arguments: Arguments, storage: Storage) -> list[NamedTable]:
    named = {key: arguments.get(key) for key in _REF}
    return open_tables(paths, storage, arguments.get("use_index"), **named)


def _scan(arguments: Arguments, storage: Storage) -> FunctionRows:
    given = arguments["path"]
    paths = given if isinstance(given, list) else [given]
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError("lance_scan: the path of a table was expected, or a list of such paths")
    matched = [expand(path, storage, is_claimed=True) for path in paths]
    names = [name for path, found in zip(paths, matched, strict=True) for name in found or [path]]
    is_one = given == names[0]
    if arguments.get("row_ids") is not None and not is_one:
        raise ValueError("lance_scan: row_ids are those of one table; name one")
    if arguments.get("explain"):
        if not is_one:
            raise ValueError("lance_scan: explain tells how one table is read; name one")
        (table,) = _open_all(names, arguments, storage)
        return searches.as_lines(_scanned(table.dataset, arguments).scanner().explain())
    opened = _open_all(names, arguments, storage)
    tables = [
        (name, _scanned(table.dataset, arguments))
        for name, table in zip(names, opened, strict=True)
    ]
    filename = arguments.get("filename")
    if is_one and not filename:
        return tables[0][1]
    column = filename if isinstance(filename, str) else "filename"
    return TableUnion(tables, bool(arguments.get("union_by_name")), column if filename else None)


def _scanned(dataset: LanceDataset, arguments: Arguments) -> LanceDataset:
    """Return the rows and columns of a table that the arguments ask for."""
    names = _names("row_metadata", arguments)
    if arguments.get("with_row_id"):
        names = [ROW_ID.name, *names]
    if names:
        dataset = dataset.with_row_metadata(*dict.fromkeys(names))
    dataset = dataset.with_members(*_names("members", arguments))
    condition = arguments.get("filter")
    if condition is not None:
        if not isinstance(condition, str):
            raise ValueError(f"lance_scan: filter is a text such as 'price > 3', not {condition!r}")
        dataset = dataset.filter(condition)
    row_ids = arguments.get("row_ids")
    if row_ids is None:
        return dataset
    try:
        wanted = pa.array(row_ids, pa.uint64())
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(f"lance_scan: row_ids is a list of row ids: {error}") from error
    return dataset.filter(pc.field(ROW_ID.name).isin(wanted))


def _names(parameter: str, arguments: Arguments) -> list[str]:
    """Return the names of columns that an argument is, which may be one name or a list."""
    given = arguments.get(parameter) or []
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"lance_scan: {parameter} is {given!r}; names of columns were expected")
    return names


def _changes(arguments: Arguments, storage: Storage) -> pa.Table:
    since, until = arguments.get("since"), arguments.get("until")
    if since is None:
        raise ValueError(
            "lance_changes: the version to start from was expected, as in "
            "lance_changes('t.lance', 3) or lance_changes('t.lance', 3, 7)"
        )
    dataset = _open(arguments, storage).dataset
    if isinstance(since, str) or isinstance(until, str):  # a tag may be moved meanwhile
        return readable_table(dataset.changes(since, until))
    return _held(
        dataset, ("changes", since, until), lambda: readable_table(dataset.changes(since, until))
    )


def _versions(arguments: Arguments, storage: Storage) -> pa.Table:
    table = _open(arguments, storage)
    dataset = table.dataset
    # Versions may be cleaned up, and tags moved, while the newest version stays.
    asked = "versions", tuple(dataset.versions()), tuple(dataset.tags().values())
    return _held(dataset, asked, lambda: metadata.versions(table))


def _held(dataset: LanceDataset, asked: Hashable, answer: Callable[[], pa.Table]) -> pa.Table:
    """Return the answer that a relation holds, or find it.

    Args:
        dataset: The version.
        asked: All that the answer depends on, beside the version.
        answer: Finds the answer.
    """
    held = _HELD.of(dataset.opened)
    found = held.get(asked)
    if found is None:
        found = held[asked] = answer()
    return found


def _about(
    describe: Callable[[NamedTable], pa.Table],
) -> Callable[[Arguments, Storage], FunctionRows]:
    return lambda arguments, storage: describe(_open(arguments, storage))


def _searched(
    search: Callable[[LanceDataset, Arguments], pa.Table],
) -> Callable[[Arguments, Storage], FunctionRows]:
    def answer(arguments: Arguments, storage: Storage) -> pa.Table:
        dataset = _open(arguments, storage).dataset
        asked = search.__name__, storage.use_index, json.dumps(arguments)
        return _held(dataset, asked, lambda: search(dataset, arguments))

    return answer


_REF = ("version", "tag", "branch", "as_of")

FUNCTIONS = (
    Function(
        SCAN,
        (
            *("path", *_REF, "with_row_id", "storage_options", "row_metadata", "use_index"),
            *("row_ids", "filename", "union_by_name", "members", "filter", "explain"),
        ),
        "The rows of a Lance table, or of all tables that a pattern matches or a list names (with "
        "filename := true, a column tells which; with union_by_name := true, the tables may have "
        "different columns): of its newest version, or of the version, tag, branch or point "
        "in time that is named; with the column _rowid, or the columns that row_metadata names, of "
        f"{', '.join(ROW_METADATA)}; with use_index := false, no filter is looked up in indices; "
        "with row_ids, the rows that have these ids; with the members of structs that members "
        "names as columns; the rows for which the condition filter is true, which may be looked up "
        "in indices of any kind; with explain := true, how they are found",
        "FROM lance_scan('t.lance', version := 7)",
        _scan,
    ),
    Function(
        "lance_changes",
        ("path", "since", "until", "branch", "storage_options"),
        "The rows that differ between two versions of a Lance table, with _change_type, "
        "_commit_version and _commit_timestamp; up to the newest version where until is not given",
        "FROM lance_changes('t.lance', 3, 7)",
        _changes,
    ),
    Function(
        "lance_vector_search",
        (
            *("path", "column", "vector", "k", "prefilter", "use_index", "nprobes"),
            *("refine_factor", "filter", "metric", "nprobs", *_REF, "storage_options", "explain"),
        ),
        "The k rows (10) whose vectors are nearest to a vector, nearest first, with _distance; "
        "among those for which the condition filter is true, or of the nearest ones with "
        "prefilter := false; a WHERE around the call filters the rows that were found; with "
        "explain := true, how they are found",
        "FROM lance_vector_search('t.lance', 'v', [0.1, 0.2]::FLOAT[2], k := 5)",
        _searched(searches.nearest),
    ),
    Function(
        "lance_fts",
        (
            *("path", "column", "query", "k", "prefilter", "filter", "use_index"),
            *(*_REF, "storage_options", "explain"),
        ),
        "The k rows (10) whose texts have words of a query, the best first, with _score; a query "
        "in double quotes is a phrase; among those for which the condition filter is true, or of "
        "the best ones with prefilter := false; a WHERE around the call filters the rows that were "
        "found; with explain := true, how they are found",
        "FROM lance_fts('t.lance', 'body', 'brown fox', k := 5)",
        _searched(searches.best_texts),
    ),
    Function(
        "lance_hybrid_search",
        (
            *("path", "vector_column", "vector", "text_column", "query", "k", "prefilter"),
            *("use_index", "nprobes", "refine_factor", "alpha", "oversample_factor", "filter"),
            *("metric", "nprobs", *_REF, "storage_options", "explain"),
        ),
        "The k rows (10) that answer best by a vector and by words, with _distance, _score and "
        "_hybrid_score: alpha (0.5) times how near they are, plus 1 - alpha times their score, "
        "both scaled to 0 to 1 over the oversample_factor (4) times k rows of each search; filters "
        "and explain as for lance_vector_search",
        "FROM lance_hybrid_search('t.lance', 'v', [0.1, 0.2]::FLOAT[2], 'body', 'brown fox')",
        _searched(searches.best_of_both),
    ),
    Function(
        "lance_versions",
        ("path", "branch", "storage_options"),
        "The versions of a Lance table, oldest first",
        "FROM lance_versions('t.lance')",
        _versions,
    ),
    Function(
        "lance_refs",
        ("path", "storage_options"),
        "The tags and branches of a Lance table",
        "FROM lance_refs('t.lance')",
        _about(metadata.refs),
    ),
    Function(
        "lance_fragments",
        ("path", *_REF, "storage_options"),
        "The fragments of a version of a Lance table, in scan order",
        "FROM lance_fragments('t.lance', tag := 'prod')",
        _about(metadata.fragments),
    ),
    Function(
        "lance_fields",
        ("path", *_REF, "storage_options"),
        "The fields of a version of a Lance table, nested ones too, with their ids",
        "FROM lance_fields('t.lance')",
        _about(metadata.fields),
    ),
    Function(
        "lance_indices",
        ("path", *_REF, "storage_options"),
        "The indices of a version of a Lance table",
        "FROM lance_indices('t.lance')",
        _about(metadata.indices),
    ),
    Function(
        "lance_indexes",
        ("path", *_REF, "storage_options"),
        "Another name of lance_indices",
        "FROM lance_indexes('t.lance')",
        _about(metadata.indices),
    ),
)
BY_NAME = {function.name: function for function in FUNCTIONS}
