"""The tree of a table, as the filesystem `lance` presents it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lancefs.cli.exits import Failure
from lancefs.cli.target import Target
from lancefs.errors import LanceError, ReadFailed
from lancefs.masking import mask_secrets
from lancefs.storage import Store
from lancefs.storage.web import split_query
from lancefs.table.base_paths import confine
from lancefs.table.fragments import sum_known
from lancefs.table.manifest import read_manifest
from lancefs.table.refs import Ref, resolve
from lancefs.table.versions import VERSIONS, list_versions
from lancefs.threads import in_threads

if TYPE_CHECKING:
    from lancefs.filesystem import LanceFileSystem
    from lancefs.serve.listings import Entry

# Parents of a path that are searched for a table: versions/7/columns/price.arrow has four.
_MAX_PARENTS = 8
_READERS = 8


def list_folder(
    store: Store, read_row: Callable[[Store, str], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Look at the directories in a folder.

    Args:
        store: The folder.
        read_row: Returns what is known of a directory, given it and its name: `identify`, or more.
    """
    names = sorted(name for name, info in store.entries() if info.get("type") == "directory")
    return in_threads(
        lambda name: read_row(Store(store.fs, store.full(name)), name),
        names,
        _READERS,
        "lancefs-ls",
    )


def identify(store: Store, name: str) -> dict[str, Any]:
    """Tell a table from a folder; what may not be listed counts as a folder, with a note."""
    try:
        return {"name": name, "type": "table" if VERSIONS in store.names() else "folder"}
    except LanceError as error:
        return {"name": name, "type": "folder", "note": str(error)}


def describe_table(store: Store, name: str) -> dict[str, Any]:
    """Return the facts about the newest version of a table; an error becomes a note."""
    row = identify(store, name)
    if row["type"] == "folder":
        return row
    try:
        store = confine(store, None)
        resolved = resolve(store)
        row |= {"version": resolved.file.version, "versions": len(list_versions(store))}
        manifest = read_manifest(resolved.manifest)
        row |= {
            "committed": manifest.timestamp,
            "rows": manifest.num_rows,
            "columns": len(manifest.fields),
            "fragments": len(manifest.fragments),
            "bytes": sum_known(fragment.size for fragment in manifest.fragments),
        }
    except LanceError as error:
        row["note"] = str(error)
    return row


def table_of(target: Target) -> tuple[Target | None, str | None]:
    """Tell what a path with a ref names.

    Returns:
        The table, and a path in its tree, None for the directory of the version; None for the table
        where the path is that of a folder.

    Raises:
        Failure: There is nothing at the path.
    """
    names = target.store.names()
    if VERSIONS in names:
        return target, None
    if names and target.ref == Ref():
        return None, None
    below = ""
    for store, name in _parents(target.store):
        below = f"{name}/{below}".rstrip("/")
        try:
            is_table = VERSIONS in store.names()
        except ReadFailed:  # what lies above a path need not be listable
            break
        if is_table:
            return Target(store.url(), Ref(), target.options, target.rules, store), below
    _ = target.resolved  # raises, and names similar paths
    raise Failure(f"{mask_secrets(target.url)}: there is no such table or folder")


def _parents(store: Store) -> Iterator[tuple[Store, str]]:
    """Yield the directories above a directory, and the name of the one below each."""
    path, query = split_query(store.root) if store.is_web else (store.root, "")
    for _ in range(_MAX_PARENTS):
        path, _, name = path.rpartition("/")
        if not path or path.endswith("/"):  # above a server, or all directories
            return
        yield Store(store.fs, f"{path}{query}"), unquote(name) if store.is_web else name


def directory(target: Target) -> str:
    """Return the directory of a version in the tree of its table; "" without a ref."""
    ref = target.ref
    if ref == Ref():
        return ""
    if ref.tag is not None:
        return f"tags/{ref.tag}"
    branch = f"branches/{ref.branch}/" if ref.branch else ""
    if ref.version is None and ref.as_of is None:
        return f"{branch}latest"
    return f"{branch}versions/{target.resolved.file.version}"


def filesystem(target: Target, **options: Any) -> LanceFileSystem:
    """Return a filesystem whose root is a table, or a folder of tables."""
    from lancefs.filesystem import LanceFileSystem

    store, rules = target.store, target.rules
    return LanceFileSystem(
        store.root, store.fs, base_rules=rules, skip_instance_cache=True, **options
    )


def listing(fs: LanceFileSystem, path: str) -> list[Entry]:
    """List a directory of the tree of a table.

    Raises:
        Failure: There is no such directory; the message says what there is.
    """
    from lancefs.serve.listings import list_directory

    try:
        return list_directory(fs, path)
    except FileNotFoundError as error:
        raise Failure(str(error)) from error
