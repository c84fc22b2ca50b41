"""The group of commands: finds them, runs one, and turns errors into a line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from lancefs import __version__
from lancefs.cli import exits

# The commands, in the order of `--help`: each is the function of its name in the module of its
# name. The texts stand here so that `--help` imports none of them.
COMMANDS = {
    "ls": "List the tables of a folder, or the tree of a table.",
    "tree": "Show the tree of a table or a folder.",
    "head": "Show the first rows.",
    "schema": "Show the columns.",
    "log": "Show the versions, newest first.",
    "show": "Show what a version is made of.",
    "diff": "Compare two versions.",
    "sql": "Run a query in DuckDB, or a prompt for queries.",
    "export": "Write a version as Arrow, Parquet or CSV files.",
    "verify": "Decode everything, and compare it with the manifest.",
    "du": "Show where the bytes are, by column.",
    "report": "Write a page about a table, as one HTML file.",
    "mount": "Mount a table as a directory.",
    "completion": "Print the shell's completion script.",
}

_NAME = "lancefs"
_COMPLETE = "_LANCEFS_COMPLETE"

# Whose errors are not those of a store.
_OURS = {"builtins", "duckdb_adapter", "lancefs", "numpy", "pyarrow"}

_HELP = """Look at Lance tables, any version of them. Nothing is ever written into a table.

A TABLE is a path or any URL that fsspec knows. After an @ stands the version: t.lance@7, @prod
(a tag), @exp:latest, @exp:3 (a branch); the newest one by default."""

_EPILOG = """\b
Examples:
  lancefs ls -l data/
  lancefs log data/orders.lance
  lancefs head s3://bucket/orders.lance@prod -c city,price -w "price > 3"
  lancefs diff data/orders.lance 3 7
  lancefs head data/orders.lance --format csv > rows.csv

\b
Exit codes: 0 done; 1 verify found problems; 2 wrong input; 3 the table cannot be read;
4 something is not installed; 130 interrupted; 141 the reader of a pipe went away."""


@dataclass(slots=True)
class Session:
    """What the run of one command needs to remember."""

    debug: bool = False


class Commands(click.Group):
    """Commands that are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"lancefs.cli.commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant, or say which one probably is."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            hint = exits.nearest(args[0], COMMANDS)
            raise click.UsageError(f"there is no command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


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
    ctx.find_object(Session).debug |= debug  # type: ignore[union-attr]  # main put one there
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the name of the program; those of the process by default.

    Returns:
        The exit code.
    """
    session = Session()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if _COMPLETE in os.environ:  # the shell asks what could follow
            lancefs.main(given, _NAME, _COMPLETE)
        # Not `lancefs.main`, which has its own ways to end for Ctrl-C and broken pipes.
        with lancefs.make_context(_NAME, given, obj=session) as ctx:
            done = lancefs.invoke(ctx)
        _flush()
        return done if isinstance(done, int) else exits.DONE
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return exits.INTERRUPTED
    except BrokenPipeError:
        return _end_of_pipe()
    except Exception as error:
        if session.debug:
            import traceback

            traceback.print_exc()
        message, code = _explain(error)
        line = " ".join(message.split())
        print(f"lancefs: {_printable(line)}", file=sys.stderr)
        return code


def _explain(error: Exception) -> tuple[str, int]:
    """Put an error into one line, with its exit code."""
    if isinstance(error, exits.Failure):
        return str(error), error.code
    if isinstance(error, click.ClickException):
        return _usage(error), exits.USAGE
    known = _known(error)
    if known is not None:
        return str(error) or type(error).__name__, known
    what = f"{type(error).__name__}: {error}"
    if type(error).__module__.partition(".")[0] not in _OURS:  # of a store's own library
        return what, exits.UNREADABLE
    return f"an error in lancefs itself ({what}); --debug shows where", exits.INTERNAL


def _known(error: Exception) -> int | None:
    """Return the exit code of an error that is no fault of ours."""
    from lancefs import errors

    if isinstance(error, errors.NotALanceTable | errors.RefNotFound | errors.ColumnNotFound):
        return exits.USAGE
    if isinstance(error, errors.LanceError | PermissionError):
        return exits.UNREADABLE
    if isinstance(error, ImportError):  # fsspec names the package that a protocol needs
        return exits.MISSING
    return exits.UNREADABLE if isinstance(error, OSError | TimeoutError) else None


def _usage(error: click.ClickException) -> str:
    """Return click's message as one line, with the command that it is about."""
    ctx = getattr(error, "ctx", None)
    where = f"{ctx.info_name}: " if ctx is not None and ctx.parent is not None else ""
    message = error.format_message()
    return where + message[:1].lower() + message[1:]


def _printable(line: str) -> str:
    """Keep names with control characters from steering the terminal."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _end_of_pipe() -> int:
    """End quietly: what is still buffered would fail again when Python closes its streams."""
    nowhere: Any = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return exits.BROKEN_PIPE
