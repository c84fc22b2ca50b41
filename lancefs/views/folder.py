"""Directories above tables, through which a user can walk to the tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import fsspec

from lancefs.storage import Store
from lancefs.storage.filesystems import is_bucket, is_folder
from lancefs.table.refs import parse_ref
from lancefs.views.tree import Directory, Node

T = TypeVar("T")


class Folder(Directory):
    """A directory that is not a table. It shows its subdirectories, tables or not, and no files.

    Args:
        fs: The filesystem that contains the directory.
        path: Path of the directory in the spelling of `fs`.
    """

    def __init__(self, fs: fsspec.AbstractFileSystem, path: str) -> None:
        super().__init__(path)
        self._fs = fs

    @property
    def url(self) -> str:
        """URL of the directory; for a local directory its absolute path."""
        return str(self._fs.unstrip_protocol(self.path)).removeprefix("file://")

    def exists(self) -> bool:
        """Return whether the directory exists."""
        return is_bucket(self._fs, self.path) or bool(self._ask(lambda: self._fs.isdir(self.path)))

    def children(self) -> dict[str, Node]:
        entries = self._ask(lambda: self._fs.ls(self.path, detail=True))
        paths = [entry["name"].rstrip("/") for entry in entries if is_folder(self._fs, entry)]
        return {path.rpartition("/")[2]: Folder(self._fs, path) for path in sorted(paths)}

    def child(self, name: str) -> Node | None:
        return self.children().get(name)

    def meant(self, name: str) -> str | None:
        """Return the path of the file of a version, for a table with a version behind its name."""
        table, at, text = name.rpartition("@")
        if not (at and Folder(self._fs, f"{self.path.rstrip('/')}/{table}").exists()):
            return None
        try:
            ref = parse_ref(text)
        except ValueError:
            return None
        branch = "" if ref.branch is None else f"branches/{ref.branch}/"
        version = "latest" if ref.version is None else f"versions/{ref.version}"
        return f"{table}/{branch}{version if ref.tag is None else f'tags/{ref.tag}'}.arrow"

    def modified(self) -> datetime:
        """Return when the directory was last modified; raises as `modified` of `fs` does."""
        modified: datetime = self._ask(lambda: self._fs.modified(self.path))
        return modified

    def _ask(self, call: Callable[[], T]) -> T:
        return Store(self._fs, self.path).ask(call, "")
