"""`history.arrow`: one row for each version of a branch, with what it did."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from lancefs.views.file_node import LAYOUT, Form, Handle, MaterializedFile

NAME = "history"


class HistoryFile(MaterializedFile):
    """The history of a branch at the time of the call: it grows, and tags move.

    Args:
        handle: The newest version of the branch.
        form: The format of the file.
    """

    def __init__(self, handle: Handle, form: Form) -> None:
        super().__init__(handle, f"{NAME}{form}", form)

    @property
    def fixed_path(self) -> str:
        """Path in the tree. No path always means the same history."""
        branch = self.handle.ref.branch
        return self.name if branch is None else f"branches/{branch}/{self.name}"

    @property
    def digest(self) -> str:
        """Identity of the bytes: a SHA-256 over the versions, the tags, and the releases."""
        table, branch = self.handle.table, self.handle.ref.branch
        versions = [(file.version, file.size) for file in table.versions(branch)]
        parts = (
            LAYOUT,
            self.handle.version.identity,
            self.name,
            versions,
            sorted(table.tags.items()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def rows(self) -> pa.Table:
        """Read the history; see `LanceDataset.history`."""
        return self.handle.version.dataset.history()
