"""The directories above tables, as far as they lead to tables."""

from __future__ import annotations

from datetime import datetime

import fsspec

from lancefs.errors import ReadFailed
from lancefs.views.tree import Directory, Node


class Folder(Directory):
    """A directory that is no table: it shows the directories in it, whether tables or not.

    Args:
        fs: The filesystem that it is on.
        path: Its path there.
    """

    def __init__(self, fs: fsspec.AbstractFileSystem, path: str) -> None:
        super().__init__(path)
        self._fs = fs

    @property
    def url(self) -> str:
        """Its address, as a user would write it."""
        return str(self._fs.unstrip_protocol(self.path)).removeprefix("file://")

    def exists(self) -> bool:
        """Whether there is such a directory."""
        return bool(self._fs.isdir(self.path))

    def children(self) -> dict[str, Node]:
        try:
            entries = self._fs.ls(self.path, detail=True)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ReadFailed(f"{self.url}: cannot be listed: {error}") from error
        paths = [one["name"].rstrip("/") for one in entries if one["type"] == "directory"]
        return {path.rpartition("/")[2]: Folder(self._fs, path) for path in sorted(paths)}

    def child(self, name: str) -> Node | None:
        return self.children().get(name)

    def modified(self) -> datetime:
        """Return when something was last put into it, where the store says so."""
        modified: datetime = self._fs.modified(self.path)
        return modified
