"""Contents of a report about a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancefs.table.history import Commit, read_history
from lancefs.table.indices import Index, read_indices, segments_by_name, uncovered_rows
from lancefs.table.tags_and_branches import list_branches

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.cli.usage import Usage
    from lancefs.profile.profiles import TableProfile
    from lancefs.table.manifest import Manifest

# Newest versions that a report shows.
MAX_VERSIONS = 1000


@dataclass(frozen=True, slots=True)
class Facts:
    """Contents of a report about one version.

    Attributes:
        name: Address of the table and the version.
        manifest: Manifest of the version.
        commits: Commits of its branch up to the version, oldest first; at most `MAX_VERSIONS`.
        versions: Number of versions of the branch up to the version.
        branches: Names of the branches.
        usage: Bytes by column.
        indices: Segments of the indices by their names, without system indices.
        uncovered: Rows that an index lacks, by its name; None if not known.
        schema: One row for each field, as in `lancefs schema`.
        profile: What the values of the columns are like; None where the rows were not read.
    """

    name: str
    manifest: Manifest
    commits: Sequence[Commit]
    versions: int
    branches: Sequence[str]
    usage: Usage
    indices: Mapping[str, Sequence[Index]]
    uncovered: Mapping[str, int | None]
    schema: Sequence[dict[str, Any]]
    profile: TableProfile | None

    @property
    def rows(self) -> int:
        """Number of live rows; 0 if the manifest does not record them."""
        return self.manifest.num_rows or 0

    @property
    def deleted(self) -> int:
        """Number of deleted rows that are still in the data files."""
        return sum(fragment.num_deleted or 0 for fragment in self.manifest.fragments)


def gather(target: Target, profile: TableProfile | None = None) -> Facts:
    """Read the contents of a report: manifests, transactions, and metadata of data files.

    Args:
        target: The version.
        profile: What its values are like, if that is to be shown.
    """
    from lancefs.cli.commands.schema import field_rows
    from lancefs.cli.usage import measure_bytes
    from lancefs.table.versions import list_versions

    where, manifest = target.resolved, target.manifest
    versions = [file.version for file in list_versions(where.store)]
    newer = sum(version > manifest.version for version in versions)
    history = read_history(where, MAX_VERSIONS + newer)
    commits = [commit for commit in history if commit.version <= manifest.version]
    indices = read_indices(where.manifest, manifest, target.files)
    return Facts(
        name=target.address,
        manifest=manifest,
        commits=commits[-MAX_VERSIONS:],
        versions=len(versions) - newer,
        branches=sorted(list_branches(where.root)),
        usage=measure_bytes(target),
        indices=segments_by_name(indices),
        uncovered=uncovered_rows(indices, manifest),
        schema=list(field_rows(manifest.fields)),
        profile=profile,
    )
