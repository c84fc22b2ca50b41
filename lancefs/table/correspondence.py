"""The correspondence of columns: which column of one version is which column of another.

A column keeps its id when it is renamed, moved, or gets more members. But ids are reused: Lance
gives the id of a dropped column to the next new one, and assigns all ids anew when a table is
overwritten. Columns are therefore followed from version to version: by id if the later version
changes the earlier one, by name and type if it replaces the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from lancefs.datafile.fields import Field
from lancefs.table.commits import CommitFile
from lancefs.table.manifest import Manifest
from lancefs.table.transactions import Transaction

_REPLACING = ("Overwrite", "Restore")


@dataclass(frozen=True, slots=True)
class Pair:
    """A column of the newer version, and the same column of the older version.

    Attributes:
        field: The column in the newer version.
        old: The field to read from the older version's fragments; None for a new column.
        compared: The part of the column that both versions have, as (field of the older version,
            field of the newer version); None if there is no such part.
    """

    field: Field
    old: Field | None
    compared: tuple[Field, Field] | None


@dataclass(frozen=True, slots=True)
class Correspondence:
    """The columns of two versions.

    Attributes:
        pairs: A pair for each column of the newer version.
        is_comparable: Whether the versions may have rows in common: False if the table was
            overwritten with other columns in between.
    """

    pairs: tuple[Pair, ...]
    is_comparable: bool

    @property
    def compared(self) -> list[tuple[Field, Field]]:
        """The parts of columns that both versions have, as in `Pair.compared`."""
        return [pair.compared for pair in self.pairs if pair.compared is not None]


@dataclass(frozen=True, slots=True)
class _Identities:
    """The identities of the columns of a version.

    Attributes:
        origins: Identity of each column, by its id: a number that stays with the column.
        era: Number that changes when the table is overwritten with other columns.
    """

    origins: Mapping[int, int]
    era: int


def correspond(since: Manifest, until: Manifest, commits: Sequence[CommitFile]) -> Correspondence:
    """Follow the columns of a version to a later one.

    Args:
        since: The older version.
        until: The newer version.
        commits: The commits after the older version up to the newer one, as far as they are
            readable; also earlier commits, if one of the later ones restored their version.
    """
    identities = _Tracker().track(since, until, commits)
    old, new = identities[since.version], identities[until.version]
    origins = {old.origins[field.id]: field for field in since.fields if field.id in old.origins}
    pairs = tuple(
        _pair(field, origins.get(new.origins.get(field.id, -1))) for field in until.fields
    )
    return Correspondence(pairs, old.era == new.era)


class _Tracker:
    """Follows columns from version to version, and gives new columns an identity."""

    def __init__(self) -> None:
        self._numbers = count()
        self._identities: dict[int, _Identities] = {}

    def track(
        self, since: Manifest, until: Manifest, commits: Sequence[CommitFile]
    ) -> dict[int, _Identities]:
        """Return the identities of the columns of each readable version, by version."""
        by_version = {commit.file.version: commit for commit in commits}
        manifests = {version: commit.manifest for version, commit in by_version.items()} | {
            since.version: since,
            until.version: until,
        }
        before: Manifest | None = None
        for version in sorted(manifests):
            manifest, commit = manifests[version], by_version.get(version)
            if manifest is not None:
                transaction = None if commit is None else commit.transaction
                self._identities[version] = self._identify(before, manifest, transaction)
                before = manifest
        return self._identities

    def _identify(
        self, before: Manifest | None, manifest: Manifest, transaction: Transaction | None
    ) -> _Identities:
        if before is None:
            return self._with_new({}, manifest, next(self._numbers))
        if transaction is not None and transaction.operation in _REPLACING:
            restored = transaction.details.get("version")
            if transaction.operation == "Restore" and restored in self._identities:
                return self._identities[int(restored)]
            return self._match_by_name(before, manifest)
        is_gap = transaction is None or manifest.version != before.version + 1
        return self._match_by_id(before, manifest, is_gap)

    def _match_by_id(self, before: Manifest, manifest: Manifest, is_gap: bool) -> _Identities:
        """Match columns by id and type; over a gap in the commits by name as well."""
        known = self._identities[before.version]
        old_fields = {field.id: field for field in before.fields}
        origins = {}
        for field in manifest.fields:
            old = old_fields.get(field.id)
            if old is None or old.logical_type != field.logical_type:
                continue
            if not is_gap or old.name == field.name:
                origins[field.id] = known.origins[field.id]
        return self._with_new(origins, manifest, known.era)

    def _match_by_name(self, before: Manifest, manifest: Manifest) -> _Identities:
        """Match columns by name and type."""
        known = self._identities[before.version]
        old_ids = {_name_and_type(field): field.id for field in before.fields}
        new_ids = {_name_and_type(field): field.id for field in manifest.fields}
        origins = {
            new_id: known.origins[old_ids[key]] for key, new_id in new_ids.items() if key in old_ids
        }
        has_other_columns = set(old_ids) != set(new_ids)
        era = next(self._numbers) if has_other_columns else known.era
        return self._with_new(origins, manifest, era)

    def _with_new(self, origins: Mapping[int, int], manifest: Manifest, era: int) -> _Identities:
        """Return the identities of matched columns, and new ones for all other columns."""
        ids = [field.id for field in manifest.fields if field.id not in origins]
        return _Identities({**origins, **{id: next(self._numbers) for id in ids}}, era)


def _name_and_type(field: Field) -> tuple[Any, ...]:
    """Return the name and type of a field, with those of all fields below it."""
    return (field.name, field.logical_type, *(_name_and_type(child) for child in field.children))


def _pair(field: Field, old: Field | None) -> Pair:
    if old is None:
        return Pair(field, None, None)
    if old.id != field.id:  # matched by name and type
        return Pair(field, old, (old, field))
    both = field.prune({part.id for part in old.walk()})
    return Pair(field, field, None if both is None else (both, both))
