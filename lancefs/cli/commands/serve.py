"""`lancefs serve`: tables over HTTP."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

from lancefs.cli import shared_options
from lancefs.cli.browsing import filesystem, identify, list_folder
from lancefs.cli.exits import MISSING, Failure
from lancefs.cli.render.grid import print_line, tell
from lancefs.cli.render.text import plural
from lancefs.cli.target import Target, parse_target
from lancefs.masking import mask_secrets
from lancefs.table.refs import Ref
from lancefs.table.versions import VERSIONS

if TYPE_CHECKING:
    from lancefs.table.base_paths import BaseRules


@shared_options.command(
    examples="""
    lancefs serve data/
    lancefs serve orders.lance s3://bucket/teas.lance --port 8000
    LANCEFS_TOKEN=… lancefs serve data/ --host 0.0.0.0
    """,
    epilog="Needs starlette and uvicorn: pip install 'lancefs[serve]'. Ctrl-C ends it.",
)
@click.argument(
    "paths",
    metavar="FOLDER|TABLE…",
    nargs=-1,
    required=True,
    shell_complete=shared_options.complete_table,
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=shared_options.WholeNumber(0, 65535),
    default=8642,
    show_default=True,
    help="The port to listen on; 0 for any that is free.",
)
@click.option(
    "--token",
    envvar="LANCEFS_TOKEN",
    show_envvar=True,
    help="What clients must show, as a bearer token or as a password. Others on this machine see "
    "the option, and not the variable.",
)
@shared_options.storage
@shared_options.base_rules
def serve(
    paths: tuple[str, ...],
    host: str,
    port: int,
    token: str | None,
    options: dict[str, Any],
    rules: BaseRules | None,
) -> None:
    """Serve all versions of tables over HTTP, read-only, until Ctrl-C.

    The tree of each table, as `lancefs tree` shows it, and pages to look around in a browser. Of a
    folder, the tables that are in it now.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Failure(
            f"serve needs {error.name}, which is not installed: pip install 'lancefs[serve]'",
            MISSING,
        ) from error
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise Failure("--token: printable ASCII characters were expected")
    from lancefs.cli.pages.site import TablePages
    from lancefs.serve.app import ServedTable, make_app
    from lancefs.serve.running import is_for_this_machine, listen, run, url_of

    tables = _find_tables(paths, options, rules)
    served = {
        name: ServedTable(filesystem(one), mask_secrets(one.store.url()).partition("?")[0])
        for name, one in tables.items()
    }
    app = make_app(served, TablePages(tables), None if token is None else token.strip(), tell)
    try:
        listening = listen(host, port)
    except OSError as error:
        raise Failure(f"--host {host} --port {port}: {error.strerror or error}") from error
    with listening:
        if token is None and not is_for_this_machine(listening):
            tell(f"whoever can reach {host} can read the tables: --token asks for one", "yellow")

        def say_where() -> None:
            print_line(f"{plural(len(tables), 'table')} at {url_of(listening)}; Ctrl-C ends it")
            sys.stdout.flush()

        run(app, listening, say_where)


def _find_tables(
    paths: tuple[str, ...], options: dict[str, Any], rules: BaseRules | None
) -> dict[str, Target]:
    """Return the tables that are named, and those in folders that are, by the names to serve.

    Raises:
        Failure: There is no table, a version is named, or two tables have the same name.
    """
    tables: dict[str, Target] = {}
    for path in paths:
        for target in _tables_at(path, options, rules):
            name = _name(target)
            if name in tables:
                raise Failure(
                    f"two tables are named {name!r}: {mask_secrets(tables[name].store.url())} and "
                    f"{mask_secrets(target.store.url())}; serve one of them from another port"
                )
            tables[name] = target
    return tables


def _tables_at(path: str, options: dict[str, Any], rules: BaseRules | None) -> list[Target]:
    """Return a table, or the tables of a folder.

    Raises:
        Failure: There is none.
    """
    target = parse_target(path, options, rules=rules)
    if target.ref != Ref():
        raise Failure(f"{path}: all versions are served; leave out the @{target.ref}")
    names = target.store.names()
    if VERSIONS in names or not names:
        _ = target.resolved  # raises if it is no table
        return [target]
    store = target.store
    found = list_folder(store, identify)
    for row in found:
        if row.get("note"):
            tell(row["note"])
    tables = [row["name"] for row in found if row["type"] == "table"]
    if not tables:
        raise Failure(f"{mask_secrets(target.url)}: there is no table in this folder")
    places = [store.below(name) for name in tables]
    return [Target(place.url(), Ref(), options, rules, place) for place in places]


def _name(target: Target) -> str:
    """Return the last name in the path of a table; a web server's is quoted."""
    root = target.store.root.partition("?")[0] if target.store.is_web else target.store.root
    name = root.rstrip("/").rpartition("/")[2]
    return (unquote(name) if target.store.is_web else name) or "table"
