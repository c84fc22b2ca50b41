"""What a report tells of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancefs.table.history import Commit, read_history
from lancefs.table.indices import Index, read_indices, uncovered_rows
from lancefs.table.refs import list_branches

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.cli.usage import Usage
    from lancefs.table.manifest import Manifest

# Versions that a report tells of, the newest ones.
MOST_VERSIONS = 1000


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """An index, all segments together.

    Attributes:
        name: Of the index.
        kind: For instance `BTree`.
        columns: That it is over.
        rows: Of the table.
        uncovered: Rows that it does not cover; None where that cannot be told.
        bytes: Of its files; None where the size of one is not known.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    rows: int | None
    uncovered: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a report tells.

    Attributes:
        name: The version that it is about.
        manifest: Of that version.
        commits: Of its branch up to it, oldest first; at most `MOST_VERSIONS`.
        versions: How many there are.
        branches: Names of the branches.
        usage: Where the bytes are.
        indices: Without the format's own.
        schema: A row for each field, as `lancefs schema` shows it.
    """

    name: str
    manifest: Manifest
    commits: Sequence[Commit]
    versions: int
    branches: Sequence[str]
    usage: Usage
    indices: Sequence[IndexFacts]
    schema: Sequence[dict[str, Any]]

    @property
    def rows(self) -> int:
        """Rows that a reader sees, as far as the manifest tells."""
        return self.manifest.num_rows or 0

    @property
    def deleted(self) -> int:
        """Rows that are deleted, and still in the data files."""
        return sum(one.num_deleted or 0 for one in self.manifest.fragments)


def gather(target: Target) -> Facts:
    """Read what a report tells: manifests, transactions, and the metadata of data files."""
    from lancefs.cli.commands.schema import field_rows
    from lancefs.cli.usage import measure
    from lancefs.table.versions import list_versions

    where, manifest = target.resolved, target.manifest
    files = [one for one in list_versions(where.store) if one.version <= manifest.version]
    beyond = len(list_versions(where.store)) - len(files)
    newest = read_history(where.store, where.root, where.branch, MOST_VERSIONS + beyond)
    commits = [one for one in newest if one.version <= manifest.version]
    indices = read_indices(where.manifest, manifest, target.files)
    return Facts(
        name=target.address,
        manifest=manifest,
        commits=commits[-MOST_VERSIONS:],
        versions=len(files),
        branches=sorted(list_branches(where.root)),
        usage=measure(target),
        indices=_index_facts(indices, manifest),
        schema=list(field_rows(manifest.fields)),
    )


def _index_facts(indices: Sequence[Index], manifest: Manifest) -> list[IndexFacts]:
    uncovered = uncovered_rows(indices, manifest)
    found = []
    for name in uncovered:
        segments = [one for one in indices if one.name == name]
        sizes = [one.size for one in segments]
        known = [size for size in sizes if size is not None]
        found.append(
            IndexFacts(
                name=name,
                kind=segments[0].type or "not known",
                columns=segments[0].columns,
                rows=manifest.num_rows,
                uncovered=uncovered[name],
                bytes=sum(known) if len(known) == len(sizes) else None,
            )
        )
    return found
