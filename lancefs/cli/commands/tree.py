"""`lancefs tree`: the tree of a table, or of a folder of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from lancefs.cli import shared_options as options
from lancefs.cli.browsing import directory, filesystem, inside
from lancefs.cli.render.grid import print_plain, styled
from lancefs.cli.render.text import size, to_json
from lancefs.cli.target import Target, parse_target
from lancefs.storage import Store
from lancefs.table.refs import Ref
from lancefs.table.versions import VERSIONS

# Entries of a directory that are shown, unless --all asks for more: a table may have thousands of
# versions.
_MOST = 12


@options.command(
    examples="""
    lancefs tree orders.lance
    lancefs tree orders.lance@prod --depth 2
    lancefs tree data/ --depth 1
    """
)
@click.argument("path", metavar="[PATH[@REF]]", default=".", shell_complete=options.complete_table)
@click.option(
    "--depth", "-L", type=click.IntRange(1), default=2, show_default=True, help="How deep."
)
@click.option("--all", "-a", "everything", is_flag=True, help="Show all entries.")
@options.table_or_json
@options.storage
def tree(path: str, depth: int, everything: bool, options: dict[str, Any], form: str) -> None:
    """Show a table as a tree of files: versions, tags, branches, fragments, columns."""
    target = parse_target(path, options)
    names = target.store.names()
    if VERSIONS in names:
        root: Any = _Views(target, directory(target))
    elif names and target.ref == Ref():
        root = _Folder(target.store)
    else:
        table, below = inside(target)
        root = _Views(table, below)
    limit = None if everything else _MOST
    if form == "json":
        print_plain(to_json(list(_flat(root, depth, limit)), indent=1))
        return
    print_plain(styled(path, "bold"))
    for line in _lines(root, depth, limit):
        print_plain(line)


class _Views:
    """A directory of the tree of a table."""

    def __init__(self, target: Target, path: str, fs: Any = None) -> None:
        self._fs = filesystem(target) if fs is None else fs
        self._target = target
        self.path = path

    def children(self) -> list[tuple[str, Any, int | None]]:
        """Return what is in it: name, directory or None, size."""
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
    """A folder that tables may lie in; a table in it is not gone into."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def children(self) -> list[tuple[str, Any, int | None]]:
        """Return the folders and tables in it."""
        found: list[tuple[str, Any, int | None]] = []
        for name, info in sorted(self._store.entries(), key=lambda entry: entry[0]):
            if info.get("type") == "directory":
                below = Store(self._store.fs, self._store.full(name))
                found.append((name, None if VERSIONS in below.names() else _Folder(below), None))
        return found


def _lines(node: Any, depth: int, limit: int | None, indent: str = "") -> Iterator[str]:
    children = node.children()
    shown = children if limit is None or len(children) <= limit else children[:limit]
    more = len(children) - len(shown)
    for position, (name, below, known) in enumerate(shown):
        is_last = position == len(shown) - 1 and not more
        text = name if below is None else styled(f"{name}/", "cyan")
        measured = "" if known is None else styled(f"  {size(known)}", "dim")
        yield f"{indent}{'└── ' if is_last else '├── '}{text}{measured}"
        if below is not None and depth > 1:
            yield from _lines(below, depth - 1, limit, indent + ("    " if is_last else "│   "))
    if more:
        yield f"{indent}└── {styled(f'… {more:,} more (--all shows them)', 'dim')}"


def _flat(node: Any, depth: int, limit: int | None, path: str = "") -> Iterator[dict[str, Any]]:
    for name, below, known in node.children()[:limit]:
        where = f"{path}/{name}" if path else name
        yield {"path": where, "type": "directory" if below is not None else "file", "size": known}
        if below is not None and depth > 1:
            yield from _flat(below, depth - 1, limit, where)
