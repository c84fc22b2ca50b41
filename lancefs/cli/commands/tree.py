"""`lancefs tree`: the tree of a table, or of a folder of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lancefs.cli import shared_options
from lancefs.cli.browsing import directory, filesystem, split_at_table
from lancefs.cli.render.grid import Styled, print_document, print_line
from lancefs.cli.render.text import size, to_json
from lancefs.cli.target import Target, parse_target
from lancefs.storage import Store
from lancefs.table.refs import Ref
from lancefs.table.versions import VERSIONS

if TYPE_CHECKING:
    from lancefs.table.base_paths import BaseRules

# Entries that are shown of a directory without --all: a table may have thousands of versions.
_MAX_ENTRIES = 12


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
    names = target.store.names()
    if VERSIONS in names:
        root: Any = _Views(target, directory(target))
    elif names and target.ref == Ref():
        root = _Folder(target.store)
    else:
        table, below = split_at_table(target)
        root = _Views(table, below)
    limit = None if everything else _MAX_ENTRIES
    if form == "json":
        print_document(to_json(list(_flatten(root, depth, limit)), indent=1))
        return
    print_line(Styled(path, "bold"))
    for line in _draw(root, depth, limit):
        print_line(*line)


class _Views:
    """Directory in the tree of a table."""

    def __init__(self, target: Target, path: str, fs: Any = None) -> None:
        self._fs = filesystem(target) if fs is None else fs
        self._target = target
        self.path = path

    def children(self) -> list[tuple[str, Any, int | None]]:
        """Return the name, the directory (None for a file) and the bytes of each entry."""
        return [
            (
                entry["name"].rstrip("/").rpartition("/")[2],
                _Views(self._target, entry["name"], self._fs)
                if entry["type"] == "directory"
                else None,
                entry.get("size") if entry["type"] == "file" else None,
            )
            for entry in self._fs.ls(self.path, detail=True)
        ]


class _Folder:
    """Folder of tables and other folders; the tables in it are leaves."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def children(self) -> list[tuple[str, Any, int | None]]:
        """Return the name of each folder or table, the folder (None for a table), and None."""
        children: list[tuple[str, Any, int | None]] = []
        for name, info in sorted(self._store.entries(), key=lambda entry: entry[0]):
            if info.get("type") == "directory":
                below = Store(self._store.fs, self._store.full(name))
                is_table = VERSIONS in below.names()
                children.append((name, None if is_table else _Folder(below), None))
        return children


def _draw(
    node: Any, depth: int, limit: int | None, indent: str = ""
) -> Iterator[list[str | Styled]]:
    """Yield the parts of the lines that show the entries below a directory.

    Args:
        node: The directory.
        depth: Levels of entries.
        limit: Most entries of a directory; None for all.
        indent: Beginning of each line.
    """
    children = node.children()
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


def _flatten(node: Any, depth: int, limit: int | None, path: str = "") -> Iterator[dict[str, Any]]:
    """Yield the entries below a directory, parents before children."""
    for name, below, bytes_ in node.children()[:limit]:
        full = f"{path}/{name}" if path else name
        yield {"path": full, "type": "directory" if below is not None else "file", "size": bytes_}
        if below is not None and depth > 1:
            yield from _flatten(below, depth - 1, limit, full)
