"""Errors for paths that are no Lance table: what is there, and what to do with it."""

from __future__ import annotations

import difflib
import os
import re
from urllib.parse import unquote

from lancefs.errors import LanceError, NotALanceTable
from lancefs.storage import Store
from lancefs.storage.filesystems import is_archive, is_bucket
from lancefs.storage.retries import message_of
from lancefs.table.versions import VERSIONS, web_hint

# A path with a version, which `lancefs.open` takes, but for which no filesystem has a directory.
_VERSIONED = re.compile(r"\.lance@[^/@]+$")
# A URL that `pathlib` or `os.path` took for a path.
_URL_AS_PATH = re.compile(r"/([a-z][a-z0-9+]+):/(.+)")
_FILE_HINT = "; a file of a version is lance://versions/7.arrow::t.lance"
# Endings of files that are mistaken for tables, and what such files are.
_ARCHIVES = ("zip", "tar")  # which are protocols of fsspec, too
_FILES = {
    **dict.fromkeys(("arrow", "arrows", "feather", "ipc"), "Arrow"),
    "parquet": "Parquet",
    "csv": "CSV",
    "tsv": "TSV",
    "json": "JSON",
    "ndjson": "NDJSON",
}


def not_a_table(store: Store) -> NotALanceTable:
    """Return the error for a path where no table is: it says what is there, and what to do."""
    if store.url().startswith("lance://"):
        return NotALanceTable(
            f"{store.url()}: a file or directory of a table's tree; the path or URL of the table "
            "is expected"
        )
    what = _file_kind(store)
    names, said = _names(store) if what is None else ([], "")
    if what is None and not names:
        hint = _FILE_HINT if _VERSIONED.search(store.root) else web_hint(store)
        if store.is_local:  # elsewhere it would take a request
            hint = hint or _url_hint(store) or _spelling_hint(store) or similar_hint(store)
        elif is_archive(store.fs):
            hint = hint or similar_hint(store)
        what = f"there is no such directory, or it is empty{said}{hint}"
    around = enclosing_table(Store(store.fs, store.root.rpartition("/")[0]))
    if around is not None:
        what = f"lies in the Lance table {around}, whose path is expected"
    return NotALanceTable(f"{store.url()}: {what or _folder_kind(store, names)}")


def _names(store: Store) -> tuple[list[str], str]:
    """Return the names in a directory; of one that is not there, what else the store says of it.

    S3 tells that there is no such bucket.
    """
    try:
        return [name for name, _ in store.existing_entries()], ""
    except (FileNotFoundError, NotADirectoryError) as error:
        text = message_of(error).rstrip(".")
        is_path = error.errno is not None or "/" in text or text in (type(error).__name__, "")
        return [], "" if is_path or text in store.root else f" ({text})"


def similar_hint(store: Store) -> str:
    """Name the directories beside a path where nothing is that were probably meant."""
    parent, _, name = store.root.rpartition("/")
    folder = Store(store.fs, parent or store.fs.root_marker)
    try:
        # All tables have the ending in common, which makes no two names alike.
        beside = {one.removesuffix(".lance"): one for one in folder.names() if one != name}
        stems = difflib.get_close_matches(name.removesuffix(".lance"), beside, 3, 0.6)
        near = [beside[stem] for stem in stems if folder.fs.isdir(folder.full(beside[stem]))]
    except Exception:  # a hint only: whatever is wrong with the store is said elsewhere
        return ""
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _url_hint(store: Store) -> str:
    """Name the URL that was a path on the way, which leaves one slash of two."""
    match = _URL_AS_PATH.search(store.root)
    return f"; did you mean {match[1]}://{match[2]}? A URL is no path" if match else ""


def _spelling_hint(store: Store) -> str:
    """Name the directory that is there if a path is quoted, as in a URL, or as Windows has it."""
    for path in (unquote(store.root), store.root.replace("\\", "/")):
        if path != store.root and os.path.isdir(path):
            return f"; did you mean {path}?"
    return ""


def enclosing_table(store: Store) -> str | None:
    """Return the path of the table that a path is, or lies in; None where there is none.

    In a remote store only directories are looked at whose names end in `.lance`, which costs
    requests for these alone.
    """
    if store.is_web:
        return None
    parts = (os.path.realpath(store.root) if store.is_local else store.root).split("/")
    for depth in range(len(parts), 1, -1):
        place = "/".join(parts[:depth])
        if store.is_local or place.endswith(".lance"):
            try:
                if Store(store.fs, place).names(VERSIONS):
                    return place
            except (LanceError, OSError):
                continue  # it may not be listed
    return None


def writing_refusal(store: Store) -> str | None:
    """Return why nothing may be written to a place: it is in a table; None where it is in none.

    Args:
        store: The file or directory to be written; it may not exist yet.
    """
    table = enclosing_table(store)
    if table is None:
        return None
    return f"{table} is a Lance table, and lancefs writes nothing into tables; choose another place"


def _folder_kind(store: Store, names: list[str]) -> str:
    """Return what a directory is that is no table, and what to do with it."""
    if "_delta_log" in names:
        return "a Delta table, not a Lance table; deltalake and DuckDB's delta extension read it"
    if "metadata" in names and _holds(store.names("metadata"), ".metadata.json"):
        return (
            "an Iceberg table, not a Lance table; pyiceberg and DuckDB's iceberg extension read it"
        )
    if {"latest.arrow", "history.arrow"} <= set(names):
        return "the files of a table, as 'lancefs serve' shows them; latest.arrow has the rows"
    tables = sorted(name for name in names if name.endswith(".lance"))[:10]
    if not tables and _holds(names, ".parquet"):
        return "a folder of Parquet files, not a Lance table; pyarrow and DuckDB read it"
    hint = f"; did you mean one of {', '.join(tables)} in it?" if tables else ""
    return f"not a Lance table: there is no manifest in {VERSIONS}/{hint}"


def _holds(names: list[str], ending: str) -> bool:
    return any(name.endswith(ending) for name in names)


def _file_kind(store: Store) -> str | None:
    """Return what a path is that names a file, and what to do with it; None for other paths.

    Web servers are not asked: they answer for directories as for files.
    """
    url, fs = store.url(), store.fs
    ending = url.partition("?")[0].rpartition("/")[2].rpartition(".")[2].lower()
    if store.is_web:
        is_file = ending in (*_ARCHIVES, *_FILES)
    else:
        is_file = not is_bucket(fs, store.root) and store.ask(lambda: fs.isfile(store.root), "")
    if not is_file:
        return None
    if ending in _ARCHIVES:
        copied = "simplecache::" if store.is_web else ""
        inner = f"{ending}://NAME.lance::{copied}{url}"
        return f"an archive, not a Lance table; a table NAME.lance in it has the URL {inner}"
    if ending in _FILES:
        return f"a file ({_FILES[ending]}), not a Lance table; pyarrow and DuckDB read it"
    return f"a file, not a Lance table; a table is a directory that contains {VERSIONS}/"
