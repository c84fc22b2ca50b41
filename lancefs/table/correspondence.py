"""The correspondence of columns: which column of one version is which column of another.

A column keeps its id when it is renamed, moved, or gets more members. But ids are reused: Lance
gives the id of a dropped column, or of a dropped member, to the next new one, and assigns all ids
anew when a table is overwritten. Fields are therefore followed from version to version: by id if
the later version changes the earlier one, by name and type if it replaces the earlier one. Over a
gap in the commits nobody knows which of both it was: there they are followed by name and type, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from lancefs.datafile.fields import Field
from lancefs.table.commits import CommitFile
from lancefs.table.manifest import Manifest
from lancefs.table.transactions import Transaction

_REPLACING = ("Overwrite", "Restore")
# Added to the ids of fields that the older version lacks: no file has ids of more than 31 bits.
_ABSENT = 2**31


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
        matches: Fields of the older version, by the ids of the same fields in the newer one: of
            the columns, and of all fields below them.
    """

    pairs: tuple[Pair, ...]
    is_comparable: bool
    matches: Mapping[int, Field]

    @property
    def compared(self) -> list[tuple[Field, Field]]:
        """The parts of columns that both versions have, as in `Pair.compared`."""
        return [pair.compared for pair in self.pairs if pair.compared is not None]


@dataclass(frozen=True, slots=True)
class _Identities:
    """The identities of the fields of a version: of the columns, and of all fields below them.

    Attributes:
        origins: Identity of each field, by its id: a number that stays with the field.
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
    known = {old.origins[part.id]: part for part in _walk(since.fields)}
    matches = dict(_matches(until.fields, new.origins, known))
    pairs = tuple(_pair(one, matches) for one in until.fields)
    return Correspondence(pairs, old.era == new.era, matches)


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
        """Match fields by id and type; over a gap in the commits by path and type."""
        known = self._identities[before.version]
        old = {_key(path, part, is_gap): part.id for path, part in _paths(before.fields)}
        new = {part.id: _key(path, part, is_gap) for path, part in _paths(manifest.fields)}
        origins = {id: known.origins[old[key]] for id, key in new.items() if key in old}
        return self._with_new(origins, manifest, known.era)

    def _match_by_name(self, before: Manifest, manifest: Manifest) -> _Identities:
        """Match columns by name and type."""
        known = self._identities[before.version]
        old, new = (set(map(_name_and_type, one.fields)) for one in (before, manifest))
        ids = _same_names(before.fields, manifest.fields)
        origins = {id: known.origins[old_id] for id, old_id in ids.items()}
        return self._with_new(origins, manifest, known.era if old == new else next(self._numbers))

    def _with_new(self, origins: Mapping[int, int], manifest: Manifest, era: int) -> _Identities:
        """Return the identities of matched fields, and new ones for all other fields."""
        ids = [part.id for part in _walk(manifest.fields) if part.id not in origins]
        return _Identities({**origins, **{id: next(self._numbers) for id in ids}}, era)


def _key(path: tuple[str, ...], field: Field, is_gap: bool) -> tuple[Any, ...]:
    """Return what is the same of a field in two versions.

    Args:
        path: The names that lead to the field.
        field: The field.
        is_gap: Whether nobody knows what was done between the versions, which may be an overwrite.
    """
    if not is_gap:
        return field.id, field.logical_type
    # A packed struct is stored as one value, in the order of its members.
    return path, _name_and_type(field) if field.is_leaf else field.logical_type


def _same_names(old: Sequence[Field], new: Sequence[Field]) -> dict[int, int]:
    """Match columns by name and type; return ids in the old version by those in the new one."""
    known = {_name_and_type(column): column for column in old}
    pairs = [(known.get(_name_and_type(column)), column) for column in new]
    return {
        part.id: earlier.id
        for before, column in pairs
        if before is not None
        for earlier, part in zip(before.walk(), column.walk(), strict=True)
    }


def _walk(fields: Sequence[Field]) -> Iterator[Field]:
    """Yield fields and all fields below them."""
    for one in fields:
        yield from one.walk()


def _paths(fields: Sequence[Field], above: tuple[str, ...] = ()) -> Iterator[tuple[Any, Field]]:
    """Yield fields and all fields below them, each with the names that lead to it."""
    for one in fields:
        path = (*above, one.name)
        yield path, one
        yield from _paths(one.children, path)


def _name_and_type(field: Field) -> tuple[Any, ...]:
    """Return the name and type of a field, with those of all fields below it."""
    return (field.name, field.logical_type, *(_name_and_type(child) for child in field.children))


def _matches(
    fields: Sequence[Field], origins: Mapping[int, int], known: Mapping[int, Field]
) -> Iterator[tuple[int, Field]]:
    """Yield the ids of fields, and the same fields of the older version.

    Args:
        fields: Fields of the newer version; those below a field that is new are new, too.
        origins: Identities of the fields of the newer version, by their ids.
        known: Fields of the older version, by their identities.
    """
    for one in fields:
        if origins[one.id] in known:
            yield one.id, known[origins[one.id]]
            yield from _matches(one.children, origins, known)


def _pair(field: Field, matches: Mapping[int, Field]) -> Pair:
    """Return a column with its match.

    Args:
        field: The column of the newer version.
        matches: Fields of the older version, by the ids of the same fields in the newer one.
    """
    if field.id not in matches:
        return Pair(field, None, None)
    both = field.prune(matches.keys())
    compared = None if both is None else (_as_before(both, matches), both)
    return Pair(field, _as_before(field, matches), compared)


def _as_before(field: Field, matches: Mapping[int, Field]) -> Field:
    """Return a field to read from the older version; members that it lacks are in no file."""
    old = matches.get(field.id)
    if old is None:
        own = replace(field, id=_ABSENT + field.id)
    else:
        # Files of another field may store it in another way, which its own description says.
        own = field if old.id == field.id else replace(old, name=field.name)
    return replace(own, children=tuple(_as_before(one, matches) for one in field.children))
