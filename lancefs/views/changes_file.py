"""The rows that differ between two versions of a branch, as a file."""

from __future__ import annotations

import hashlib
import re

import pyarrow as pa

from lancefs.table.refs import Ref
from lancefs.views.file_node import LAYOUT, Form, Handle, WholeLeaf

_NAME = re.compile(r"(0|[1-9][0-9]{0,18})\.\.(0|[1-9][0-9]{0,18})")


class ChangesLeaf(WholeLeaf):
    """What changed from one version to another; both keep what they hold, so it never changes.

    Args:
        since: The older version.
        until: The newer one, of the same branch.
        form: What it is.
    """

    def __init__(self, since: Handle, until: Handle, form: Form) -> None:
        super().__init__(until, name_of(since, until) + form, form)
        self.since = since

    @property
    def fixed_path(self) -> str:
        """The path in the tree that will always mean these bytes."""
        branch = self.handle.ref.branch
        where = "" if branch is None else f"branches/{branch}/"
        return f"{where}changes/{self.name}"

    @property
    def digest(self) -> str:
        """What tells these bytes from all others, also from those of another release."""
        parts = (LAYOUT, self.since.version.identity, self.handle.version.identity, self.form)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def rows(self) -> pa.Table:
        """Compare the versions."""
        return self.handle.version.dataset.changes(self.since.ref)


def name_of(since: Handle, until: Handle) -> str:
    """Return how the changes between two versions are called, without an ending."""
    return f"{since.ref.version}..{until.ref.version}"


def parse_name(name: str, branch: str | None) -> tuple[Ref, Ref] | None:
    """Return the versions that a name without its ending means; None where it means none.

    Args:
        name: For instance `3..7`.
        branch: That both versions are on.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    since, until = int(match[1]), int(match[2])
    if since > until:
        return None
    return Ref(version=since, branch=branch), Ref(version=until, branch=branch)
