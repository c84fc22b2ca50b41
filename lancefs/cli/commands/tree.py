"""`lancefs tree`: the tree of a table, or of a folder of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from lancefs.cli import shared_options
from lancefs.cli.browsing import (
    directory,
    filesystem,
    identify,
    list_folder,
    listing,
    table_of,
)
from lancefs.cli.render.grid import Styled, print_document, print_line
from lancefs.cli.render.text import size, to_json
from lancefs.cli.target import parse_target
from lancefs.storage import Store

if TYPE_CHECKING:
    from lancefs.filesystem import LanceFileSystem
    from lancefs.table.base_paths import BaseRules

# Entries that are shown of a directory without --all: a table may have thousands of versions.
_MAX_ENTRIES = 12

# What lists a directory: name, what lists it in turn (None for a file), and bytes of each entry.
_Children: TypeAlias = Callable[[], list[tuple[str, Any, int | None]]]


@shared_options.command(
    examples="""
    lancefs tree orders.lance
    lancefs tree orders.lance@prod --depth 2
    lancefs tree data/ --depth 1
    """
)
@click.argument(
    "path", metavar="[PATH[@REF]]", default=".", shell_complete=shared_options.complete_table
)
@click.option(
    "--depth",
    "-L",
    type=shared_options.WholeNumber(1),
    default=2,
    show_default=True,
    help="How deep.",
)
@click.option("--all", "-a", "everything", is_flag=True, help="Show all entries.")
@shared_options.table_or_json
@shared_options.storage
@shared_options.base_rules
def tree(
    path: str,
    depth: int,
    everything: bool,
    options: dict[str, Any],
    rules: BaseRules | None,
    form: str,
) -> None:
    """Show a table as a tree of files: versions, tags, branches, fragments, columns."""
    target = parse_target(path, options, rules=rules)
    table, below = table_of(target)
    if table is None:
        root: _Children = partial(_folder, target.store)
    else:
        _ = table.resolved  # raises unless it is a table
        top = directory(table) if below is None else below
        root = partial(_views, filesystem(table), top)
    limit = None if everything else _MAX_ENTRIES
    if form == "json":
        print_document(to_json(list(_flatten(root, depth, limit)), indent=1))
        return
    print_line(Styled(path, "bold"))
    for line in _draw(root, depth, limit):
        print_line(*line)


def _views(fs: LanceFileSystem, path: str) -> list[tuple[str, Any, int | None]]:
    """List a directory in the tree of a table."""
    return [
        (
            one.name,
            partial(_views, fs, f"{path}/{one.name}".lstrip("/")) if one.is_directory else None,
            one.size,
        )
        for one in listing(fs, path)
    ]


def _folder(store: Store) -> list[tuple[str, Any, int | None]]:
    """List a folder; the tables in it are leaves."""
    found = [(row["name"], row["type"] == "table") for row in list_folder(store, identify)]
    return [
        (n, None if is_table else partial(_folder, store.below(n)), None) for n, is_table in found
    ]


def _draw(
    node: _Children, depth: int, limit: int | None, indent: str = ""
) -> Iterator[list[str | Styled]]:
    """Yield the parts of the lines that show the entries below a directory.

    Args:
        node: The directory.
        depth: Levels of entries.
        limit: Most entries of a directory; None for all.
        indent: Beginning of each line.
    """
    children = node()
    shown = children if limit is None or len(children) <= limit else children[:limit]
    more = len(children) - len(shown)
    for position, (name, below, bytes_) in enumerate(shown):
        is_last = position == len(shown) - 1 and not more
        text = name if below is None else Styled(f"{name}/", "cyan")
        suffix = "" if bytes_ is None else Styled(f"  {size(bytes_)}", "dim")
        yield [f"{indent}{'└── ' if is_last else '├── '}", text, suffix]
        if below is not None and depth > 1:
            yield from _draw(below, depth - 1, limit, indent + ("    " if is_last else "│   "))
    if more:
        yield [f"{indent}└── ", Styled(f"… {more:,} more (--all shows them)", "dim")]


def _flatten(
    node: _Children, depth: int, limit: int | None, path: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield the entries below a directory, parents before children."""
    for name, below, bytes_ in node()[:limit]:
        full = f"{path}/{name}" if path else name
        yield {"path": full, "type": "directory" if below is not None else "file", "size": bytes_}
        if below is not None and depth > 1:
            yield from _flatten(below, depth - 1, limit, full)
