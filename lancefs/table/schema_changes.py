"""The changes of the columns between versions, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lancefs.datafile.fields import Field
from lancefs.table.commits import CommitFile, commits_between
from lancefs.table.correspondence import correspond
from lancefs.table.open_version import OpenVersion
from lancefs.table.schema import with_paths


def schema_differences(since: OpenVersion, until: OpenVersion) -> list[str]:
    """Describe how the columns of two versions differ.

    Args:
        since: The older version.
        until: The newer version, of the same branch.
    """
    if since.fields == until.fields:
        return []
    numbers = since.manifest.version, until.manifest.version
    commits = commits_between(until.resolved.store, *numbers)
    known = correspond(since.manifest, until.manifest, commits).matches
    matches = {id: part.id for id, part in known.items()}
    before, after = _by_id(since.fields), _by_id(until.fields)
    # A struct that was overwritten with other members is no match, and yet the same to users.
    left = {
        (path, part.logical_type): id
        for id, (path, part) in before.items()
        if id not in matches.values()
    }
    renumbered = {
        matches.get(id, left.get((path, part.logical_type), -1 - id)): (path, part)
        for id, (path, part) in after.items()
    }
    return list(_differences(before, renumbered))


def schema_changes(record: CommitFile, before: CommitFile | None) -> tuple[str, ...]:
    """Describe how a commit changed the columns.

    Args:
        record: The commit, whose manifest is known.
        before: The commit before; None if it is gone.
    """
    assert record.manifest is not None
    if before is None or before.manifest is None:
        return ()
    if before.manifest.fields == record.manifest.fields:
        return ()
    old, new = _by_id(before.manifest.fields), _by_id(record.manifest.fields)
    operation = None if record.transaction is None else record.transaction.operation
    is_gap = record.file.version != before.file.version + 1
    if is_gap or operation in ("Overwrite", "Restore"):
        # These operations change the ids of columns, and versions that are gone may have used them
        # again: match by path instead.
        old_ids = {path: id for id, (path, _) in old.items()}
        new = {old_ids.get(path, -1 - id): (path, part) for id, (path, part) in new.items()}
    return tuple(_differences(old, new))


# (path, field) by id.
_Fields = Mapping[int, tuple[str, Field]]


def _by_id(fields: Sequence[Field]) -> _Fields:
    return {field.id: (path, field) for path, field in with_paths(fields)}


def _differences(old: _Fields, new: _Fields) -> Iterator[str]:
    """Describe the differences of fields; the same field has the same id in both."""
    dropped = {path: part for id, (path, part) in old.items() if id not in new}
    added = {path for id, (path, _) in new.items() if id not in old}
    for id, (path, part) in new.items():
        if id in old:
            yield from _field_changes(*old[id], path, part)
        elif _parent(path) not in added:
            cast = dropped.pop(path, None)
            if cast is None:
                yield f"add {path}: {part.logical_type}"
            else:
                yield _type_change(path, cast, part)
    yield from (f"drop {path}" for path in dropped if _parent(path) not in dropped)


def _field_changes(old_path: str, old: Field, path: str, new: Field) -> Iterator[str]:
    if old_path.rpartition(".")[2] != new.name:
        yield f"rename {old_path} to {path}"
    if old.logical_type != new.logical_type:
        yield _type_change(path, old, new)
    elif old.nullable != new.nullable:
        yield f"{path} may {'now' if new.nullable else 'no longer'} be null"


def _parent(path: str) -> str:
    """Return the path of the field that holds a nested field; empty for a column."""
    return path.rpartition(".")[0]


def _type_change(path: str, old: Field, new: Field) -> str:
    return f"change {path} from {old.logical_type} to {new.logical_type}"
