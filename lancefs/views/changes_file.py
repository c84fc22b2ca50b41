"""`changes/3..7.arrow`: the rows that differ between two versions of a branch."""

from __future__ import annotations

import hashlib
import re

import pyarrow as pa

from lancefs.table.refs import Ref
from lancefs.views.file_node import LAYOUT, Form, Handle, MaterializedFile

_NAME = re.compile(r"(0|[1-9][0-9]{0,18})\.\.(0|[1-9][0-9]{0,18})")


class ChangesFile(MaterializedFile):
    """The changes between two versions. Versions are immutable, so the file is, too.

    Args:
        since: The older version.
        until: The newer version, of the same branch.
        form: The format of the file.
    """

    def __init__(self, since: Handle, until: Handle, form: Form) -> None:
        super().__init__(until, name_of(since, until) + form, form)
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


def name_of(since: Handle, until: Handle) -> str:
    """Return the name of the changes between two versions without the suffix: `3..7`."""
    return f"{since.ref.version}..{until.ref.version}"


def parse_name(name: str, branch: str | None) -> tuple[Ref, Ref] | None:
    """Return the refs (since, until) that a name means; None for any other name.

    Args:
        name: A name without the suffix, for instance `3..7`.
        branch: The branch of both versions; None for the main branch.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    since, until = int(match[1]), int(match[2])
    if since > until:
        return None
    return Ref(version=since, branch=branch), Ref(version=until, branch=branch)
