"""Files whose rows are computed as a whole: `changes/3..7.arrow` and `history.arrow`.

The changes are the rows that differ between two versions of a branch; the history has one row for
each version of a branch.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Generator

import pyarrow as pa

from lancefs.table.refs import Ref
from lancefs.views.arrow.arrow_file import encode
from lancefs.views.arrow.arrow_stream import encode_stream
from lancefs.views.file_node import LAYOUT, FileNode, Form, Handle
from lancefs.views.view import View, WholeView
from lancefs.views.view_batches import BATCH_ROWS

HISTORY = "history"
_CHANGES_NAME = re.compile(r"(0|[1-9][0-9]{0,18})\.\.(0|[1-9][0-9]{0,18})")


class MaterializedFile(FileNode, ABC):
    """A file whose rows are computed all at once, in memory."""

    @abstractmethod
    def rows(self) -> pa.Table:
        """Compute the rows."""

    def view(self) -> View:
        """Return the bytes of a file that is not a stream. Rows are computed on demand."""
        return WholeView(self._key(), lambda: encode(*self._batches()))

    def stream(self) -> Generator[memoryview, None, None]:
        """Compute the rows, and return the bytes of a stream."""
        return encode_stream(*self._batches())

    def _batches(self) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        rows = self.rows()
        return rows.schema, rows.combine_chunks().to_batches(BATCH_ROWS)


class ChangesFile(MaterializedFile):
    """The changes between two versions. Versions are immutable, so the file is, too.

    Args:
        since: The older version.
        until: The newer version, of the same branch.
        form: The format of the file.
    """

    def __init__(self, since: Handle, until: Handle, form: Form) -> None:
        super().__init__(until, changes_name(since, until) + form, form)
        self.since = since

    @property
    def fixed_path(self) -> str:
        """Path in the tree that always means these bytes: the only path of the file."""
        branch = self.handle.ref.branch
        where = "" if branch is None else f"branches/{branch}/"
        return f"{where}changes/{self.name}"

    @property
    def digest(self) -> str:
        """Identity of the bytes: a SHA-256 over both versions, the format, and the releases."""
        parts = (LAYOUT, self.since.version.identity, self.handle.version.identity, self.form)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def rows(self) -> pa.Table:
        """Compare the versions; see `LanceDataset.changes`."""
        return self.handle.version.dataset.changes(self.since.ref)


def changes_name(since: Handle, until: Handle) -> str:
    """Return the name of the changes between two versions without the suffix: `3..7`."""
    return f"{since.ref.version}..{until.ref.version}"


def parse_changes(name: str, branch: str | None) -> tuple[Ref, Ref] | None:
    """Return the refs (since, until) that a name means; None for any other name.

    Args:
        name: A name without the suffix, for instance `3..7`.
        branch: The branch of both versions; None for the main branch.
    """
    match = _CHANGES_NAME.fullmatch(name)
    if match is None:
        return None
    since, until = int(match[1]), int(match[2])
    if since > until:
        return None
    return Ref(version=since, branch=branch), Ref(version=until, branch=branch)


class HistoryFile(MaterializedFile):
    """The history of a branch at the time of the call: it grows, and tags move.

    Args:
        handle: The newest version of the branch.
        form: The format of the file.
    """

    def __init__(self, handle: Handle, form: Form) -> None:
        super().__init__(handle, f"{HISTORY}{form}", form)

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
