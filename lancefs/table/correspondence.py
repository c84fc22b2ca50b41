"""Which columns of two versions are the same one.

A column keeps its id when it is renamed, moved, or given more members. But ids are used again: that
of a dropped column for the next one that is added, and all of them when a table is overwritten. So
columns are followed from version to version: by id where a version changed the one before, by name
and type where it put something else in its place.
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
    """A column of the newer version, and what it was in the older one.

    Attributes:
        field: As the newer version has it.
        old: What to read of the older version's fragments for it; None where it was not there.
        compared: What of it both versions have: (of the older one, of the newer one); None where
            there is nothing to compare.
    """

    field: Field
    old: Field | None
    compared: tuple[Field, Field] | None


@dataclass(frozen=True, slots=True)
class Correspondence:
    """The columns of two versions.

    Attributes:
        pairs: For each column of the newer version.
        is_comparable: Whether rows of one may be rows of the other: not where the table was
            overwritten with other columns in between.
    """

    pairs: tuple[Pair, ...]
    is_comparable: bool

    @property
    def compared(self) -> list[tuple[Field, Field]]:
        """What both versions have: (of the older one, of the newer one) of each."""
        return [pair.compared for pair in self.pairs if pair.compared is not None]


@dataclass(frozen=True, slots=True)
class _State:
    """What is known of a version on the way.

    Attributes:
        origins: For each column, by its id, a number that it has from its first version on.
        era: A number that is the same until the table is overwritten with other columns.
    """

    origins: Mapping[int, int]
    era: int


def correspond(since: Manifest, until: Manifest, commits: Sequence[CommitFile]) -> Correspondence:
    """Follow the columns of a version to a later one.

    Args:
        since: The older version.
        until: The newer one.
        commits: The versions from the older one on, up to the newer one, as far as they are there;
            perhaps also some before, so that what is restored from there is known.
    """
    states = _Walk().through(since, until, commits)
    old, new = states[since.version], states[until.version]
    origins = {old.origins[one.id]: one for one in since.fields if one.id in old.origins}
    pairs = tuple(_pair(one, origins.get(new.origins.get(one.id, -1))) for one in until.fields)
    return Correspondence(pairs, old.era == new.era)


class _Walk:
    """Goes from version to version, and gives numbers to columns that are new."""

    def __init__(self) -> None:
        self._numbers = count()
        self._states: dict[int, _State] = {}

    def through(
        self, since: Manifest, until: Manifest, commits: Sequence[CommitFile]
    ) -> dict[int, _State]:
        known = {one.file.version: one for one in commits}
        manifests = {one: known[one].manifest for one in known} | {
            since.version: since,
            until.version: until,
        }
        before: Manifest | None = None
        for version in sorted(manifests):
            manifest, commit = manifests[version], known.get(version)
            if manifest is not None:
                done = None if commit is None else commit.transaction
                self._states[version] = self._next(before, manifest, done)
                before = manifest
        return self._states

    def _next(
        self, before: Manifest | None, manifest: Manifest, done: Transaction | None
    ) -> _State:
        if before is None:
            return self._state({}, manifest, next(self._numbers))
        if done is not None and done.operation in _REPLACING:
            restored = done.details.get("version")
            if done.operation == "Restore" and restored in self._states:
                return self._states[int(restored)]
            return self._by_name(before, manifest)
        return self._by_id(before, manifest, done is None or manifest.version != before.version + 1)

    def _by_id(self, before: Manifest, manifest: Manifest, is_gap: bool) -> _State:
        """Columns of the same id and type are the same; over a gap they need the same name too."""
        state, known = self._states[before.version], {one.id: one for one in before.fields}
        origins = {}
        for one in manifest.fields:
            was = known.get(one.id)
            if was is None or was.logical_type != one.logical_type:
                continue
            if not is_gap or was.name == one.name:
                origins[one.id] = state.origins[one.id]
        return self._state(origins, manifest, state.era)

    def _by_name(self, before: Manifest, manifest: Manifest) -> _State:
        state, known = self._states[before.version], {_shape(one): one.id for one in before.fields}
        shapes = {_shape(one): one.id for one in manifest.fields}
        origins = {
            number: state.origins[known[shape]]
            for shape, number in shapes.items()
            if shape in known
        }
        is_other = set(known) != set(shapes)
        return self._state(origins, manifest, next(self._numbers) if is_other else state.era)

    def _state(self, origins: Mapping[int, int], manifest: Manifest, era: int) -> _State:
        new = {one.id: next(self._numbers) for one in manifest.fields if one.id not in origins}
        return _State({**origins, **new}, era)


def _shape(field: Field) -> tuple[Any, ...]:
    """Name and type, with all that lies below."""
    return (field.name, field.logical_type, *(_shape(child) for child in field.children))


def _pair(field: Field, origin: Field | None) -> Pair:
    if origin is None:
        return Pair(field, None, None)
    if origin.id != field.id:  # of the same name and type
        return Pair(field, origin, (origin, field))
    both = field.prune({one.id for one in origin.walk()})
    return Pair(field, field, None if both is None else (both, both))
