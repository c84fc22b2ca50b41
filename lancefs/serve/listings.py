"""Directories of the tree, as pages and as JSON."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from lancefs.filesystem import LanceFileSystem


class Entry(NamedTuple):
    """One entry of a directory.

    Attributes:
        name: Its name.
        is_directory: Whether it is a directory.
        size: Bytes of a file, if they are known.
        committed: When the version of a file was committed, if that is known.
    """

    name: str
    is_directory: bool
    size: int | None = None
    committed: datetime | None = None

    @property
    def link(self) -> str:
        """The entry as a link from its directory, quoted once; a directory ends with a slash."""
        # A colon is quoted, too: a name can be no scheme of a URL.
        return f"{quote(os.fsencode(self.name), safe='')}{'/' if self.is_directory else ''}"

    def facts(self) -> dict[str, Any]:
        """Return the entry for JSON."""
        return {
            "name": self.name,
            "type": "directory" if self.is_directory else "file",
            "size": self.size,
            "committed": None if self.committed is None else self.committed.isoformat(),
            "href": self.link,
        }


def list_directory(fs: LanceFileSystem, path: str) -> list[Entry]:
    """List a directory of the tree of a table.

    Args:
        fs: The tree.
        path: The directory.

    Raises:
        FileNotFoundError: There is no such directory.
        LanceError: It cannot be read.
    """
    return [
        Entry(
            info["name"].rpartition("/")[2],
            info["type"] == "directory",
            info["size"] if info["type"] == "file" else None,
            info.get("created"),
        )
        for info in fs.ls(path, detail=True)
        if isinstance(info, dict)
    ]
