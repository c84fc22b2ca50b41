"""What every version of a branch did, as a file: a row a version."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from lancefs.views.file_node import LAYOUT, Form, Handle, WholeLeaf

NAME = "history"


class HistoryLeaf(WholeLeaf):
    """The history of a branch, as it is when somebody looks.

    Args:
        handle: The newest version of the branch.
        form: What it is.
    """

    def __init__(self, handle: Handle, form: Form) -> None:
        super().__init__(handle, f"{NAME}{form}", form)

    @property
    def fixed_path(self) -> str:
        """Its only path: no other one will always mean the same history."""
        branch = self.handle.ref.branch
        return self.name if branch is None else f"branches/{branch}/{self.name}"

    @property
    def digest(self) -> str:
        """What tells these bytes from all others: versions come and go, and tags move."""
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
        """Read what the versions say."""
        return self.handle.version.dataset.history()
