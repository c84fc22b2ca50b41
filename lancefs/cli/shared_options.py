"""Arguments and options that several commands have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import wraps
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


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    session: Session | None = ctx.find_root().obj
    if session is not None:
        session.debug |= value


# Added to each command, so that it may follow the command's name, too.
debug = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember,
    help="Show the traceback of an error.",
)


def pairs_option(*names: str, help: str) -> Callable[[_F], _F]:
    """Return an option of `key=value` pairs, of which the function gets a dict."""
    return _parsed_option(read_options, *names, metavar="KEY=VALUE", help=help)


def names_option(*names: str, help: str) -> Callable[[_F], _F]:
    """Return an option of names of columns, of which the function gets a list, or None."""
    return _parsed_option(read_columns, *names, metavar="A,B", help=help)


def _parsed_option(
    parse: Callable[[tuple[str, ...]], Any], *names: str, **how: Any
) -> Callable[[_F], _F]:
    """Return an option that may be repeated; a function parses all of its values."""
    return click.option(*names, multiple=True, callback=lambda _c, _p, value: parse(value), **how)


def base_rules(function: _F) -> _F:
    """Add `--base-path` and `--follow`; the function gets `BaseRules`, or None, as `rules`."""

    @wraps(function)
    def wrapped(*, moved: dict[str, str], follow: Follow | None, **rest: Any) -> Any:
        if not moved and follow is None:
            return function(rules=None, **rest)
        from lancefs.table.base_paths import BaseRules

        rules = BaseRules(moved=moved) if follow is None else BaseRules(follow, moved)
        return function(rules=rules, **rest)

    moved_option = _parsed_option(
        read_moved,
        "--base-path",
        "moved",
        metavar="OLD=NEW",
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

    @wraps(function)
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

    at_time = click.option(
        "--as-of", metavar="TIME", help="The newest version committed at or before this time."
    )
    argument = click.argument("table", metavar="TABLE[@REF]", shell_complete=complete_table)
    result: Any = argument(at_time(storage(base_rules(wrapped))))
    return result  # type: ignore[no-any-return]


def some_rows(function: _F) -> _F:
    """Add the options of commands that show some rows: `-n`, `-c`, `-w`, `-x`, `--no-index`.

    The function gets them, and the `form` of `output`, as one `RowOptions` behind the Target.
    """

    @wraps(function)
    def wrapped(target: Target, *, rows: int, **rest: Any) -> Any:
        from lancefs.cli.scanning import RowOptions

        options = {name: rest.pop(name) for name in RowOptions._fields[1:]}
        return function(target, RowOptions(rows, **options), **rest)

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


storage = pairs_option(
    "--storage-option",
    "options",
    help="An fsspec option, such as anon=true; a value may be JSON. May be repeated.",
)
# One of `FORMATS`.
output = click.option(
    "--format",
    "-f",
    "form",
    type=NearestChoice(FORMATS),
    default="table",
    show_default=True,
    help="The output format; table is plain text unless the output is a terminal.",
)
# For results of more than one table.
table_or_json = click.option(
    "--format",
    "-f",
    "form",
    type=NearestChoice(("table", "json")),
    default="table",
    help="The output format.",
)
columns = names_option(
    "--columns",
    "-c",
    help="The columns, in this order; all by default. Row metadata such as _rowid is allowed. "
    "May be repeated.",
)
where = click.option(
    "--where", "-w", metavar="PREDICATE", help="Only rows for which this is true: price > 3."
)
expanded = click.option(
    "--expanded",
    "-x",
    "is_expanded",
    is_flag=True,
    help="Show one value a line, one row after the other.",
)
# Whether indices may be used.
no_index = click.option(
    "--no-index",
    "use_index",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Scan all rows for a filter, without the table's indices; the result is the same.",
)
