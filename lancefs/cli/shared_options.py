"""Arguments and options that several commands have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lancefs.cli import exits

if TYPE_CHECKING:
    from lancefs.cli.main import Session
    from lancefs.cli.target import Target
    from lancefs.table.base_paths import BaseRules, Follow

FORMATS = ("table", "json", "ndjson", "csv", "tsv", "arrow", "xlsx")

_PLAIN_REF = re.compile(r"[\w./:-]+")

_F = TypeVar("_F", bound=Callable[..., Any])


class NearestChoice(click.Choice[str]):
    """Choice whose error message names similar choices."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the choice, or fail with a hint."""
        if value not in self.choices:
            hint = exits.choices_hint(str(value), [str(choice) for choice in self.choices])
            self.fail(f"{value!r} is not one of them; {hint}", param, ctx)
        return str(value)


class WholeNumber(click.IntRange):
    """Whole number, whose error message says in words which ones are taken."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number, or fail and say what was expected."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            most = "on" if self.max is None else f"to {self.max}"
            expected = f"a whole number from {self.min} {most} was expected"
            self.fail(f"{value}: {expected}", param, ctx)


def command(
    *, examples: str = "", epilog: str = "", kind: type[click.Command] = click.Command
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes a function a command, with `--debug`.

    Args:
        examples: Command lines, one per line, for the end of the help text.
        epilog: Text below the examples.
        kind: The class of the command.
    """
    lines = [line.strip() for line in examples.strip().splitlines()]
    shown = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
    text = "\n\n".join(part for part in (shown, epilog) if part)

    def wrap(function: Callable[..., Any]) -> Any:
        name = function.__name__.rstrip("_")
        return click.command(name, kind, epilog=text, no_args_is_help=False)(debug(function))

    return wrap


def debug(function: _F) -> _F:
    """Add `--debug` to a command, so that it may follow the command's name, too."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        session: Session | None = ctx.find_root().obj
        if session is not None:
            session.debug |= value

    option = click.option(
        "--debug",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Show the traceback of an error.",
    )
    return option(function)


def _name_like(function: Callable[..., Any], wrapped: Any) -> None:
    """Give what wraps the function of a command its name, its help and its options."""
    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    wrapped.__click_params__ = getattr(function, "__click_params__", [])


def storage(function: _F) -> _F:
    """Add `--storage-option`; the function gets the parsed pairs as `options`."""
    option = click.option(
        "--storage-option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda _ctx, _param, value: read_options(value),
        help="An fsspec option, such as anon=true; a value may be JSON. May be repeated.",
    )
    return option(function)


def base_rules(function: _F) -> _F:
    """Add `--base-path` and `--follow`; the function gets `BaseRules`, or None, as `rules`."""

    def wrapped(*, moved: dict[str, str], follow: Follow | None, **rest: Any) -> Any:
        if not moved and follow is None:
            return function(rules=None, **rest)
        from lancefs.table.base_paths import BaseRules

        rules = BaseRules(moved=moved) if follow is None else BaseRules(follow, moved)
        return function(rules=rules, **rest)

    _name_like(function, wrapped)
    moved_option = click.option(
        "--base-path",
        "moved",
        multiple=True,
        metavar="OLD=NEW",
        callback=lambda _ctx, _param, value: read_moved(value),
        help="New location of the files below a base path of the table. May be repeated.",
    )
    follow_option = click.option(
        "--follow",
        type=NearestChoice(("table", "store", "any")),
        help="Which base paths of the table are followed: below the table, in its store (the "
        "default), or any.",
    )
    result: Any = moved_option(follow_option(wrapped))
    return result  # type: ignore[no-any-return]


def table(function: _F) -> _F:
    """Add TABLE and the options that open it; the function gets a Target as first argument."""

    def wrapped(
        *,
        table: str,
        as_of: str | None,
        options: dict[str, Any],
        rules: BaseRules | None,
        **rest: Any,
    ) -> Any:
        from lancefs.cli.target import parse_target

        return function(parse_target(table, options, as_of, rules), **rest)

    _name_like(function, wrapped)
    at_time = click.option(
        "--as-of", metavar="TIME", help="The newest version committed at or before this time."
    )
    argument = click.argument("table", metavar="TABLE[@REF]", shell_complete=complete_table)
    result: Any = argument(at_time(storage(base_rules(wrapped))))
    return result  # type: ignore[no-any-return]


def output(function: _F) -> _F:
    """Add `--format`; the function gets one of `FORMATS` as `form`."""
    option = click.option(
        "--format",
        "-f",
        "form",
        type=NearestChoice(FORMATS),
        default="table",
        show_default=True,
        help="The output format; table is plain text unless the output is a terminal.",
    )
    return option(function)


def table_or_json(function: _F) -> _F:
    """Add `--format` with `table` and `json` only, for results of more than one table."""
    option = click.option(
        "--format",
        "-f",
        "form",
        type=NearestChoice(("table", "json")),
        default="table",
        help="The output format.",
    )
    return option(function)


def columns(function: _F) -> _F:
    """Add `--columns`; the function gets a list of names, or None, as `columns`."""
    option = click.option(
        "--columns",
        "-c",
        multiple=True,
        metavar="A,B",
        callback=lambda _ctx, _param, value: read_columns(value),
        help="The columns, in this order; all by default. Row metadata such as _rowid is allowed. "
        "May be repeated.",
    )
    return option(function)


def where(function: _F) -> _F:
    """Add `--where`; the function gets the predicate, or None, as `where`."""
    option = click.option(
        "--where", "-w", metavar="PREDICATE", help="Only rows for which this is true: price > 3."
    )
    return option(function)


def expanded(function: _F) -> _F:
    """Add `--expanded`; the function gets whether a record goes down the page, as `is_expanded`."""
    option = click.option(
        "--expanded",
        "-x",
        "is_expanded",
        is_flag=True,
        help="Show one value a line, one row after the other.",
    )
    return option(function)


def some_rows(function: _F) -> _F:
    """Add the options of commands that show some rows: `-n`, `-c`, `-w`, `-x`, `--no-index`.

    The function gets them, and the `form` of `output`, as one `RowOptions` behind the Target.
    """

    def wrapped(target: Target, *, rows: int, **rest: Any) -> Any:
        from lancefs.cli.scanning import RowOptions

        options = {name: rest.pop(name) for name in RowOptions._fields[1:]}
        return function(target, RowOptions(rows, **options), **rest)

    _name_like(function, wrapped)
    rows_option = click.option(
        "--rows",
        "-n",
        type=WholeNumber(min=0),
        default=10,
        show_default=True,
        help="Number of rows.",
    )
    result: Any = rows_option(columns(where(no_index(expanded(wrapped)))))
    return result  # type: ignore[no-any-return]


def query_vector(function: _F) -> _F:
    """Add `--like` and `--vector`, of which one tells the vector that is searched for."""
    like = click.option(
        "--like",
        type=WholeNumber(min=0),
        metavar="ROWID",
        help="Search by the vector of the row with this id.",
    )
    vector = click.option(
        "--vector",
        metavar="FILE",
        help="Search by the vector in a file: numbers in JSON, or separated by blanks, or .npy; - "
        "is standard input.",
    )
    result: Any = like(vector(function))
    return result  # type: ignore[no-any-return]


def no_index(function: _F) -> _F:
    """Add `--no-index`; the function gets whether indices may be used, as `use_index`."""
    option = click.option(
        "--no-index",
        "use_index",
        is_flag=True,
        flag_value=False,
        default=True,
        help="Scan all rows for a filter, without the table's indices; the result is the same.",
    )
    return option(function)


def read_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Parse `key=value` pairs; a value that is valid JSON is decoded."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r}: key=value was expected")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


def read_moved(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse `old=new` pairs of base paths; the last `=` separates them."""
    moved: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.rpartition("=")
        if not (old and equals and new):
            raise click.BadParameter(f"{pair!r}: OLD=NEW was expected")
        moved[old] = new
    return moved


def read_columns(texts: tuple[str, ...]) -> list[str] | None:
    """Parse names separated by commas; a name with a comma in it is in double quotes.

    Args:
        texts: The values of an option that may be repeated.

    Returns:
        The names in all of them, in order; None where the option was not given.
    """
    if not texts:
        return None
    import csv

    found: list[str] = []
    for text in texts:
        try:
            (names,) = csv.reader([text], skipinitialspace=True)
        except csv.Error:  # a line break outside of quotes
            names = []
        if not names or not all(names):
            raise click.BadParameter(f"{text!r}: names separated by commas were expected")
        found += names
    return found


def complete_table(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Complete a path, or after an @ a version, tag or branch of the table."""
    from click.shell_completion import CompletionItem

    url, at, ref = incomplete.rpartition("@")
    if not at:
        return [CompletionItem(incomplete, type="file")]
    from lancefs.cli.target import parse_target
    from lancefs.errors import LanceError

    try:
        refs = parse_target(url, {}).refs()
    except (LanceError, OSError, ValueError, exits.Failure):
        return []
    # The shell would act on other signs, which a stranger's table may have in the names of tags.
    known = [one for one in refs if one.startswith(ref) and _PLAIN_REF.fullmatch(one)]
    return [CompletionItem(f"{url}@{one}") for one in known]
