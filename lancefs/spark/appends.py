"""Which rows a version appended: those that it has and the version before it lacked."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.fields import Field
from lancefs.errors import LanceError, MissingFile, UnsupportedFeature
from lancefs.storage import Store
from lancefs.table.manifest import Manifest
from lancefs.table.transactions import UNKNOWN, read_transaction
from lancefs.table.versions import VersionFile

# The same rows in other fragments.
_REWRITE = "Rewrite"
# Commits without new fragments that change the values of rows.
_NEW_VALUES = ("DataReplacement", "DataOverlay")
# Commits that add no rows, whatever was there before.
_ADDING_NONE = (_REWRITE, "Delete", "CreateIndex", "UpdateConfig", "ReserveFragments", "Project")
# Commits of which only the version before tells whether they add rows: `Merge` adds columns.
_UNCLEAR = (UNKNOWN, "Merge")
# What a branch, or a clone of a table, begins with.
_CLONE = "Clone"
# Commits that bring fragments back, or other ones in their place.
_REPLACING = ("Restore", "Overwrite")


class RowsChanged(LanceError):
    """A version changes rows that a stream of appended rows has read already."""


def appended(
    store: Store,
    file: VersionFile,
    manifest: Manifest,
    before: Manifest | None,
    skip_changes: bool,
) -> list[int]:
    """Return the positions of the fragments whose rows a version appended.

    Deleted rows are no matter of a stream of appended rows, and rows that were compacted are not
    new. Rows that an update wrote anew cannot be told from those that it inserted.

    Args:
        store: The directory of the table or branch.
        file: The manifest file of the version.
        manifest: Its contents.
        before: The manifest of the version before; None if there is none, or none any more.
        skip_changes: Whether a version that changes rows appends nothing, rather than being an
            error.

    Raises:
        RowsChanged: The version changes or replaces rows.
        MissingFile: The version before is gone, and without it what the version did is unclear.
    """
    added, is_kept, is_append = new_fragments(manifest, before)
    if before is None:
        return _without_before(store, file, manifest, added, skip_changes)
    operation = _operation(store, file, manifest)
    if not added:
        is_change = operation in _NEW_VALUES or (operation in _REPLACING and not is_kept)
        return _changed(store, file, operation, skip_changes) if is_change else []
    if operation == _REWRITE:
        return []
    if is_append and (operation not in _REPLACING or not before.fragments):
        return added
    return _changed(store, file, operation, skip_changes)


def new_fragments(manifest: Manifest, before: Manifest | None) -> tuple[list[int], bool, bool]:
    """Compare the fragments of a version with those of the version before it.

    Args:
        manifest: The manifest of the version.
        before: The manifest of the version before it; None for the first one.

    Returns:
        The positions of the fragments that are new; whether those that were there and still are
        have not changed; and whether this is so, and none of them is gone.
    """
    old = {} if before is None else {fragment.id: fragment for fragment in before.fragments}
    added = [i for i, fragment in enumerate(manifest.fragments) if fragment.id not in old]
    kept = [fragment for fragment in manifest.fragments if fragment.id in old]
    is_kept = all(old[fragment.id] == fragment for fragment in kept)
    return added, is_kept, is_kept and len(kept) == len(old)


def begins(store: Store, file: VersionFile, manifest: Manifest) -> bool:
    """Return whether a version is the first one, before which there never was another.

    The version of a branch or a clone that is the first there may have any number.

    Args:
        store: The directory of the table or branch.
        file: The manifest file of the version.
        manifest: Its contents.
    """
    return file.version == 1 or _operation(store, file, manifest) == _CLONE


def require_same_fields(uri: str, manifest: Manifest, fields: Sequence[Field]) -> None:
    """Refuse a version in which a column of the stream is another one of the same name.

    Its values are not those of the column that the stream reads, which would be null.

    Args:
        uri: The URI of the table.
        manifest: The manifest of the version.
        fields: The columns of the stream.

    Raises:
        UnsupportedFeature: A column was cast, or dropped and added again.
    """
    name = _other_field(fields, manifest.fields)
    if name is not None:
        raise UnsupportedFeature(
            f"{uri}: column {name!r} of version {manifest.version} is not the one that the stream "
            "reads: between the two it was cast, or dropped and added again; start a new stream "
            "after that change (startingVersion), or leave the column out (columns)"
        )


def _other_field(fields: Sequence[Field], found: Sequence[Field]) -> str | None:
    """The path of a field that has the name of another one, but not its id; None without."""
    ids, names = {field.id: field for field in found}, {field.name for field in found}
    for field in fields:
        if field.id not in ids:
            if field.name in names:
                return field.name
            continue
        below = _other_field(field.children, ids[field.id].children)
        if below is not None:
            return f"{field.name}.{below}"
    return None


def _without_before(
    store: Store, file: VersionFile, manifest: Manifest, added: list[int], skip_changes: bool
) -> list[int]:
    """Do what `appended` does for a version without one before it, or whose one before is gone."""
    if begins(store, file, manifest):
        return added
    transaction = read_transaction(store, store.uncached.file(file.path, file.size), manifest)
    operation = UNKNOWN if transaction is None else transaction.operation
    if transaction is not None and operation == "Append":  # new fragments come last
        count = len(transaction.details.get("fragments", ()))
        return added[len(added) - count :]
    if operation in _ADDING_NONE:
        return []
    if operation in _UNCLEAR and not skip_changes:
        raise MissingFile(
            f"{store.url()}: whether version {file.version} ({operation}) added rows cannot be "
            f"told, as version {file.version - 1} was cleaned up; start a new stream (with a new "
            f"checkpoint) at version {file.version + 1}, and let clean-ups keep the version that "
            "streams have read last"
        )
    return _changed(store, file, operation, skip_changes)


def _operation(store: Store, file: VersionFile, manifest: Manifest) -> str:
    transaction = read_transaction(store, store.uncached.file(file.path, file.size), manifest)
    return UNKNOWN if transaction is None else transaction.operation


def _changed(store: Store, file: VersionFile, operation: str, skip: bool) -> list[int]:
    if skip:
        return []
    raise RowsChanged(
        f"{store.url()}: version {file.version} ({operation}) changes or replaces rows, which a "
        "stream of appended rows cannot show; pass over such versions with skipChanges = true, or "
        "read the table anew in a batch and start a new stream after it"
    )
