"""The command group: find a command, run it, turn an error into one line and an exit code."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from lancefs import __version__
from lancefs.cli import exits
from lancefs.masking import mask_secrets
from lancefs.printable import printable

# Commands and their help texts, in the order of `--help`. The command `x` is the function `x` of
# the module `commands.x`, or of another one (`_MODULES`). The texts are here so that `--help`
# imports none of these modules.
COMMANDS = {
    "ls": "List the tables of a folder, or the tree of a table.",
    "tree": "Show the tree of a table or a folder.",
    "head": "Show the first rows.",
    "tail": "Show the last rows.",
    "sample": "Show a random sample of rows.",
    "nearest": "Show the rows with the vectors nearest to another one.",
    "search": "Show the rows whose texts match words best.",
    "count": "Count the rows.",
    "schema": "Show the columns.",
    "describe": "Profile the values of each column.",
    "log": "Show the versions, newest first.",
    "show": "Show what a version is made of.",
    "diff": "Compare two versions.",
    "sql": "Run a query in DuckDB, or open a prompt for queries.",
    "export": "Write a version as files: Parquet, Arrow, CSV, Excel, …",
    "verify": "Decode all values, and compare the counts with the manifest.",
    "du": "Show the size of each column, on disk and in memory.",
    "report": "Write a page about a table, as one HTML file.",
    "mount": "Mount a table as a directory.",
    "serve": "Serve tables over HTTP.",
    "completion": "Print the shell's completion script.",
}

_MODULES = dict.fromkeys(("head", "tail", "sample"), "some_rows")
_NAME = "lancefs"
# The variable that the script of `lancefs completion` sets.
COMPLETE = "_LANCEFS_COMPLETE"

# What messages that name `BaseRules` mean at a prompt.
_RULES_HINT = "; on the command line, these are --base-path OLD=NEW and --follow any"

# Packages whose unexpected errors are internal errors; those of other packages come from a store.
_INTERNAL_PACKAGES = {"builtins", "duckdb_adapter", "lancefs", "numpy", "pyarrow"}

_HELP = """Look at any version of Lance tables. lancefs never writes to a table.

A TABLE is a path or any URL that fsspec knows. A version follows after an @: t.lance@7, @prod (a
tag), @exp:latest, @exp:3 (a branch); the newest version by default."""

_EPILOG = """\b
Examples:
  lancefs ls -l data/
  lancefs log data/orders.lance
  lancefs head s3://bucket/orders.lance@prod -c city,price -w "price > 3"
  lancefs diff data/orders.lance 3 7
  lancefs head data/orders.lance --format csv > rows.csv

\b
Exit codes: 0 done; 1 verify found problems; 2 wrong input; 3 the table cannot be read;
4 a package is not installed; 70 a bug in lancefs; 130 interrupted; 141 the reader of a pipe
went away."""


@dataclass(slots=True)
class Session:
    """State of the run of one command.

    Attributes:
        debug: Whether to print the traceback of an error.
    """

    debug: bool = False


class Commands(click.Group):
    """Group of commands, each imported when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None when there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"lancefs.cli.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name.

        Raises:
            UsageError: There is no such command; the message names similar ones.
        """
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(f"there is no command {args[0]!r}: {_hint(args[0])}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _hint(word: str) -> str:
    """Return what was probably meant by a word in place of a command."""
    if "/" in word or ".lance" in word:
        return f"it stands before the table, as in {_NAME} head {word}"
    if word == "help":
        return f"{_NAME} --help lists them"
    from lancefs.cli import other_names

    if word in other_names.COMMANDS:
        return f"did you mean {other_names.COMMANDS[word]}?"
    return exits.choices_hint(word, COMMANDS)


@click.command(
    "lancefs",
    cls=Commands,
    help=_HELP,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.version_option(__version__, "--version", "-V", message="lancefs %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def lancefs(ctx: click.Context, debug: bool) -> None:
    """Run a command."""
    ctx.find_object(Session).debug |= debug  # type: ignore[union-attr]  # set by main
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Arguments without the name of the program; None for those of the process.

    Returns:
        The exit code.
    """
    session = Session()
    _open_closed_streams()
    _escape_what_is_not_encoded()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if COMPLETE in os.environ:  # the shell asks for completions
            import_module("lancefs.cli.commands.completion").register()
            lancefs.main(words, _NAME, COMPLETE)
        # Not `lancefs.main`, which handles Ctrl-C and broken pipes in its own way.
        with lancefs.make_context(_NAME, words, obj=session) as ctx:
            code = lancefs.invoke(ctx)
        _flush()
        return code if isinstance(code, int) else exits.DONE
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return exits.INTERRUPTED
    except BrokenPipeError:
        return _discard_output()
    except Exception as error:
        if session.debug:
            import traceback

            _print_error(mask_secrets(traceback.format_exc()).rstrip("\n"))
        message, code = _explain(error)
        _print_error(f"lancefs: {' '.join(mask_secrets(message).split())}")
        return code


def _explain(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    if isinstance(error, exits.Failure):
        return str(error), error.code
    if isinstance(error, click.ClickException):
        return _usage_message(error), exits.USAGE
    code = _code_of(error)
    if code is not None:
        message = str(error) or type(error).__name__
        hint = _RULES_HINT if re.search(r"BaseRules\((follow|moved)", message) else ""
        return f"{message}{hint}", code
    what = f"{type(error).__name__}: {error}"
    if type(error).__module__.partition(".")[0] not in _INTERNAL_PACKAGES:
        return what, exits.UNREADABLE
    return f"an error in lancefs itself ({what}); --debug shows where", exits.INTERNAL


def _code_of(error: Exception) -> int | None:
    """Return the exit code of an expected error; None for other errors."""
    from lancefs import errors

    if isinstance(error, errors.NotALanceTable | errors.RefNotFound | errors.ColumnNotFound):
        return exits.USAGE
    if isinstance(error, errors.LanceError | PermissionError):
        return exits.UNREADABLE
    if isinstance(error, ImportError):  # fsspec names the package that a protocol needs
        return exits.MISSING
    return exits.UNREADABLE if isinstance(error, OSError | TimeoutError) else None


def _usage_message(error: click.ClickException) -> str:
    """Return click's message, after the name of the command that it is about."""
    ctx = getattr(error, "ctx", None)
    where = f"{ctx.info_name}: " if ctx is not None and ctx.parent is not None else ""
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        from lancefs.cli import other_names

        known = [name for option in ctx.command.params for name in option.opts]
        hint = other_names.option(error.option_name, known)
        message = f"{error.message} Did you mean {hint}?" if hint else message
    return where + message[:1].lower() + message[1:]


def _print_error(text: str) -> None:
    for line in text.split("\n"):
        print(printable(line), file=sys.stderr)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _open_closed_streams() -> None:
    """Discard what is written to a standard stream that the process was started without."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # open as long as the process


def _escape_what_is_not_encoded() -> None:
    """Write characters that the encoding of the output lacks as escapes, and not as an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> int:
    """Discard buffered output, which would raise again when Python closes standard output."""
    nowhere: Any = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return exits.BROKEN_PIPE
