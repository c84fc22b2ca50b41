"""Arguments and options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lancefs.cli import exits

if TYPE_CHECKING:
    from lancefs.cli.main import Session

FORMATS = ("table", "json", "csv", "arrow")

_F = TypeVar("_F", bound=Callable[..., Any])


class NearestChoice(click.Choice[str]):
    """A choice that says which one was probably meant."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the choice."""
        if value not in self.choices:
            hint = exits.nearest(str(value), [str(choice) for choice in self.choices])
            self.fail(f"{value!r} is not one of them; {hint}", param, ctx)
        return str(value)


def command(*, examples: str = "", epilog: str = "") -> Callable[[Callable[..., Any]], Any]:
    """Make a function a command, with examples below its help, and `--debug`.

    Args:
        examples: Command lines, one a line.
        epilog: What else is said.
    """
    lines = [line.strip() for line in examples.strip().splitlines()]
    shown = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
    text = "\n\n".join(part for part in (shown, epilog) if part)

    def wrap(function: Callable[..., Any]) -> Any:
        name = function.__name__.rstrip("_")
        return click.command(name, epilog=text, no_args_is_help=False)(debug(function))

    return wrap


def debug(function: _F) -> _F:
    """Add `--debug`, so that it may stand anywhere in the line."""

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


def storage(function: _F) -> _F:
    """Add `--storage-option`, as `options`."""
    option = click.option(
        "--storage-option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda _ctx, _param, value: read_options(value),
        help="An fsspec option, such as anon=true; a value may be JSON. May be repeated.",
    )
    return option(function)


def table(function: _F) -> _F:
    """Add the argument TABLE, with `--as-of` and `--storage-option`; the function gets a Target."""

    def wrapped(*, table: str, as_of: str | None, options: dict[str, Any], **rest: Any) -> Any:
        from lancefs.cli.target import parse_target

        return function(parse_target(table, options, as_of), **rest)

    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    wrapped.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    at_time = click.option(
        "--as-of", metavar="TIME", help="The newest version committed at or before this time."
    )
    argument = click.argument("table", metavar="TABLE[@REF]", shell_complete=complete_table)
    result: Any = argument(at_time(storage(wrapped)))
    return result  # type: ignore[no-any-return]


def output(function: _F) -> _F:
    """Add `--format`, as `form`."""
    option = click.option(
        "--format",
        "-f",
        "form",
        type=NearestChoice(FORMATS),
        default="table",
        show_default=True,
        help="How to print it; table is plain text where the output is not a terminal.",
    )
    return option(function)


def table_or_json(function: _F) -> _F:
    """Add `--format`, as `form`, for what is more than one table."""
    option = click.option(
        "--format",
        "-f",
        "form",
        type=NearestChoice(("table", "json")),
        default="table",
        help="How to print it.",
    )
    return option(function)


def columns(function: _F) -> _F:
    """Add `-c`, as `columns`."""
    option = click.option(
        "--columns",
        "-c",
        metavar="A,B",
        callback=lambda _ctx, _param, value: read_columns(value),
        help="The columns, in this order; all by default. _rowid and the like may be named.",
    )
    return option(function)


def where(function: _F) -> _F:
    """Add `-w`, as `where`."""
    option = click.option(
        "--where", "-w", metavar="PREDICATE", help="Only rows for which this is true: price > 3."
    )
    return option(function)


def read_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Read `key=value` pairs; a value that is JSON is taken as JSON."""
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


def read_columns(text: str | None) -> list[str] | None:
    """Read a list of columns, separated by commas; one with a comma in it stands in quotes."""
    if text is None:
        return None
    import csv

    (names,) = csv.reader([text], skipinitialspace=True)
    if not all(names):
        raise click.BadParameter(f"{text!r}: names separated by commas were expected")
    return names


def complete_table(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Complete paths, and after an @ the versions and tags of the table."""
    from click.shell_completion import CompletionItem

    url, at, ref = incomplete.rpartition("@")
    if not at:
        return [CompletionItem(incomplete, type="file")]
    from lancefs.cli.target import parse_target
    from lancefs.errors import LanceError

    try:
        known = parse_target(url, {}).refs()
    except (LanceError, OSError, ValueError, exits.Failure):
        return []
    return [CompletionItem(f"{url}@{one}") for one in known if one.startswith(ref)]
