"""`lancefs sql`: queries in DuckDB, in which a table is the path of a table."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.exits import Failure
from lancefs.cli.render.grid import Styled, print_document, print_line, tell
from lancefs.cli.render.rows import print_expanded, print_rows
from lancefs.cli.render.text import plural

if TYPE_CHECKING:
    from lancefs.table.base_paths import BaseRules

_BATCH_ROWS = 64 * 1024
_PROMPT = "lancefs> "
_MORE = "     ... "
_NO_UTF8 = "the query is not in UTF-8, as DuckDB expects it"
# The line of a query in a message of DuckDB, and what marks the place in it.
_LINE = re.compile(r"(?P<end>[.?!]?)\n+LINE \d+:[^\n]*\n *\^+(?P<more>(?=\n))?")
_WELCOME = """SQL in DuckDB. A table is its path in quotes: FROM 'data/orders.lance@v7'
End a query with ;  –  .quit or Ctrl-D leaves."""


@dataclass(frozen=True, slots=True)
class _QueryOutput:
    """How the answer to a query is printed, or its plan."""

    form: str
    is_expanded: bool
    explain: bool

    def print(self, rows: Any) -> None:
        """Print rows, which come as Arrow batches."""
        if self.is_expanded:
            print_expanded(rows.schema, rows, self.form)
        else:
            print_rows(rows.schema, rows, self.form, lambda count: plural(count, "row"))


class _SqlCommand(click.Command):
    """The command, whose query may begin with a comment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; one with a blank or a line break in its name is a query, no option."""
        is_query = [re.match(r"--[^\s=]*\s", one) is not None for one in args]
        if any(is_query) and "--" not in args:
            first = is_query.index(True)
            args = [*args[:first], *args[first + 1 :], "--", args[first]]
        return super().parse_args(ctx, args)


@shared_options.command(
    kind=_SqlCommand,
    examples="""
    lancefs sql "SELECT city, sum(price) FROM 'orders.lance@prod' GROUP BY city"
    lancefs sql "FROM lance_versions('orders.lance')" --format json
    lancefs sql --explain "SELECT max(price) FROM 'orders.lance' WHERE city = 'Gent'"
    lancefs sql < query.sql
    lancefs sql
    """,
)
@click.argument("query", required=False)
@shared_options.output
@shared_options.expanded
@click.option("--database", metavar="FILE", help="A DuckDB file to work in; it may be new.")
@click.option(
    "--explain",
    is_flag=True,
    help="Print the plan of the query, and which indices its scans use; do not run it.",
)
@shared_options.no_index
@shared_options.storage
@shared_options.base_rules
def sql(
    query: str | None,
    form: str,
    is_expanded: bool,
    database: str | None,
    explain: bool,
    use_index: bool,
    options: dict[str, Any],
    rules: BaseRules | None,
) -> None:
    """Run a query in DuckDB; without one, read it from a pipe, or show a prompt.

    Of several statements, each is run, and the rows of the last one are printed.

    Storage options are those of every table in the query; keyed by protocol, each takes its own:
    --storage-option 's3={"anon": true}'.
    """
    shown = _QueryOutput(form, is_expanded, explain)
    connection = _connect(database, storage_options=options, base_rules=rules, use_index=use_index)
    try:
        if query not in (None, "-"):
            _run_once(connection, query, shown)
        elif sys.stdin is None:
            raise click.UsageError("a query was expected, as an argument or on standard input")
        elif sys.stdin.isatty():
            _converse(connection, shown)
        else:
            _run_once(connection, _read_query(), shown)
    finally:
        connection.close()


def _connect(database: str | None, **how: Any) -> Any:
    import duckdb

    import duckdb_adapter

    where = database or ":memory:"
    try:
        duckdb_adapter.install(**how)
        return duckdb.connect(where)
    except duckdb_adapter.UnsupportedDuckDB:
        return duckdb_adapter.connect(where, **how)
    except duckdb.Error as error:
        raise Failure(f"--database {where}: {error}") from error


def _run_once(connection: Any, query: str, shown: _QueryOutput) -> None:
    """Run statements as `_run` does; what is wrong with them goes into one line.

    DuckDB adds the line of the query, and below it marks the place, which one line cannot show.
    """
    try:
        _run(connection, query, shown)
    except Failure as error:
        raise Failure(_LINE.sub(_without_line, str(error))) from error


def _without_line(line: re.Match[str]) -> str:
    """Return what is left of a message in place of the line: a full stop before a hint."""
    return line["end"] if line["end"] or line["more"] is None else "."


def _run(connection: Any, query: str, shown: _QueryOutput) -> None:
    """Run statements, and print the rows of the last one, or its plan.

    Raises:
        Failure: DuckDB refused it; the message is DuckDB's.
    """
    import duckdb

    if not _is_unicode(query):
        raise Failure(_NO_UTF8)
    try:
        statements = connection.extract_statements(query)
        if not statements:
            raise Failure("an empty query; give SQL, such as \"FROM 'orders.lance' LIMIT 5\"")
        *before, last = statements
        for statement in (*before, last):
            _check_target(statement)
        for statement in before:
            connection.execute(statement)
            while connection.fetchmany(_BATCH_ROWS):  # DuckDB 2.0 runs nothing else before its end
                pass
        if shown.explain:
            _print_plan(connection, last.query)
            return
        if last.type == duckdb.StatementType.EXPLAIN and shown.form == "table":
            _print_plans(connection.execute(last).fetchall())
            return
        kinds, results = last.expected_result_type, duckdb.ExpectedResultType
        if (
            results.QUERY_RESULT not in kinds or results.NOTHING in kinds
        ):  # CREATE, SET and the like
            connection.execute(last)
            return
        result = connection.sql(last)
        if result is None:  # of a COPY before DuckDB 2.0
            return
        reader = _reader(result)
        shown.print(reader)
    except duckdb.ParserException as error:
        is_bare = ".lance" in re.sub("'[^']*'", "", query)
        hint = "A path stands in single quotes: FROM 'orders.lance'" if is_bare else ""
        raise Failure(f"{error}\n{hint}".rstrip()) from error
    except duckdb.CatalogException as error:
        raise Failure(_explained(str(error), query)) from error
    except duckdb.Error as error:
        hint = "A version follows the path: FROM 't.lance@v1'"
        is_hinted = ".lance" in query and "does not support time travel" in str(error)
        raise Failure(f"{error}.\n{hint}" if is_hinted else str(error)) from error


def _check_target(statement: Any) -> None:
    """Refuse to write what looks like a Lance table, which DuckDB itself does not ask about.

    Raises:
        Failure: The statement would write a CSV file of such a name.
    """
    from duckdb_adapter.statements import copied_table, refusal

    name = copied_table(statement)
    if name is not None:
        raise Failure(refusal(name, statement))


def _read_query() -> str:
    """Return what comes in by a pipe.

    Raises:
        Failure: It is no text.
    """
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise Failure(_NO_UTF8) from error


def _is_unicode(text: str) -> bool:
    """Tell whether a text, of which Python keeps what is no UTF-8 as surrogates, has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _explained(message: str, query: str) -> str:
    """Say what DuckDB cannot know about a table that it does not find."""
    found = re.search(r"Table with name \"?(.+?)\"? does not exist", message)
    if found is None:
        is_guess = re.search(r"Function with name \"?\w*lance\w*\"? does not exist", message)
        hint = "\nA table is read by its path, or by lance_scan('t.lance')" if is_guess else ""
        return message + (hint if "lance_" not in message.partition("Did you mean")[2] else "")
    if os.path.exists(f"{found[1]}.lance"):
        return f"{message}\nA path stands in single quotes: FROM '{found[1]}.lance'"
    if not (".lance" in found[1] or os.path.exists(found[1])):
        return message
    if f"'{found[1]}'" in query:
        return _why_not(found[1])
    return f"{message}\nA path stands in single quotes: FROM '{found[1]}'"


def _why_not(name: str) -> str:
    """Say why a statement cannot use the table that a name in single quotes is to be."""
    from lancefs.cli.target import parse_target
    from lancefs.errors import LanceError

    if "://" in name:
        return f"{name}: there is no such table; 'lancefs ls' lists those of a folder"
    try:
        parse_target(name, {}).opened  # noqa: B018  # raises what is wrong
    except (Failure, LanceError) as error:
        return str(error)
    return f"{name}: a Lance table is only read; no statement changes it"


def _print_plan(connection: Any, query: str) -> None:
    from duckdb_adapter.planned_scans import noting_scans

    with noting_scans() as scans:
        plans = connection.execute(f"EXPLAIN {query}").fetchall()
    _print_plans(plans)
    for scan in scans:
        print_line()
        print_line(scan.dataset.opened.name)
        print_document(scan.explain())


def _print_plans(plans: list[tuple[str, str]]) -> None:
    """Print what EXPLAIN returns, a drawing of many lines in each row."""
    for _, plan in plans:
        print_document(plan.rstrip())


def _converse(connection: Any, shown: _QueryOutput) -> None:
    """Read queries from a terminal and run them, until the end of input."""
    import contextlib

    with contextlib.suppress(ImportError):  # without it, lines have no history
        import readline  # noqa: F401
    for line in _WELCOME.split("\n"):
        print_line(Styled(line, "dim"))
    lines: list[str] = []
    while True:
        try:
            line = input(_MORE if lines else _PROMPT)
        except EOFError:
            print_line()
            return
        except KeyboardInterrupt:
            print_line()
            lines = []
            continue
        if not lines and line.strip() in (".quit", ".exit", "quit", "exit", "\\q"):
            return
        if line.strip():
            lines.append(line)
        if lines and lines[-1].rstrip().endswith(";"):
            _answer(connection, "\n".join(lines), shown)
            lines = []


def _answer(connection: Any, query: str, shown: _QueryOutput) -> None:
    """Run a query at the prompt: whatever is wrong with it, the prompt goes on."""
    try:
        _run(connection, query, shown)
    except KeyboardInterrupt:
        print_line("interrupted")
    except Exception as error:
        tell(str(error), "red")


def _reader(result: Any) -> Any:
    """Return the rows of a result as Arrow batches; DuckDB 2.0 has renamed the method."""
    read = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader
    return read(_BATCH_ROWS)
