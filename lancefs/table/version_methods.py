"""The methods of a dataset that tell of its version, and of the others, without reading rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancefs.arguments import check_number
from lancefs.table.fragments import Fragment
from lancefs.table.manifest import Manifest, read_auxiliary_data, reading_sections
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref
from lancefs.table.tags_and_branches import Branch, Tag, list_branches, list_tags
from lancefs.table.versions import latest, list_versions

if TYPE_CHECKING:
    from lancefs.table.indices import Index
    from lancefs.table.mem_wal import Generation
    from lancefs.table.table_stats import TableStats
    from lancefs.table.transactions import Transaction


class VersionMethods:
    """The methods of datasets about versions; `changes` reads the rows that differ."""

    _version: OpenVersion

    @property
    def uri(self) -> str:
        """The URL or path of the table's directory, including any secrets in it."""
        return self._version.uri

    @property
    def is_local(self) -> bool:
        """Whether the table is on this machine, so that reads wait for no network."""
        return self._version.resolved.store.is_local

    @property
    def version(self) -> int:
        """The number of the version."""
        return self._version.manifest.version

    @property
    def branch(self) -> str | None:
        """The branch of the version; None for the main branch."""
        return self._version.resolved.branch

    @property
    def manifest(self) -> Manifest:
        """The manifest of the version."""
        return self._version.manifest

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The metadata of each fragment, in scan order; `get_fragments` yields readable objects."""
        return self._version.manifest.fragments

    @property
    def dictionary_columns(self) -> list[str]:
        """Names of the string columns that are cheap to read dictionary-encoded.

        These are the columns whose pages store dictionaries, and those of one-byte strings with few
        distinct values, according to the column metadata of the first fragment. A scan returns them
        dictionary-encoded on request (`scanner(dictionary_columns=…)`); engines such as DuckDB
        group by dictionaries faster than by strings.

        Raises:
            LanceError: The metadata cannot be read.
        """
        return list(self._version.dictionary_columns)

    @property
    def is_fresh(self) -> bool:
        """Whether the rows include unmerged generations of the write-ahead log (MemWAL)."""
        return self._version.is_fresh

    def unmerged_generations(self) -> list[Generation]:
        """List the MemWAL generations that writers have flushed and no version includes yet.

        `open(…, fresh=True)` adds their rows; such a dataset lists the generations that it added.
        """
        from lancefs.table.fresh import FreshVersion
        from lancefs.table.mem_wal import fresher_generations

        if isinstance(self._version, FreshVersion):
            return list(self._version.generations)
        return fresher_generations(self._version.resolved.store, self.indices())

    def close(self) -> None:
        """Release the files and everything cached from them; a later read opens them again."""
        self._version.close()

    @property
    def latest_version(self) -> int:
        """The number of the newest version on the branch of this one, listed at each access."""
        return latest(self._version.resolved.store).version

    def stats(self) -> TableStats:
        """Return counts of rows, columns, fragments, files and bytes; only the manifest is read."""
        from lancefs.table.table_stats import table_stats

        return table_stats(self._version.manifest)

    def versions(self) -> list[int]:
        """List the numbers of the versions on the branch of this one, oldest first."""
        store = self._version.resolved.store
        return [file.version for file in list_versions(store, with_sizes=False)]

    def tags(self) -> dict[str, Tag]:
        """Return the tags of the table by name."""
        return list_tags(self._version.resolved.root)

    def branches(self) -> dict[str, Branch]:
        """Return the branches of the table by name, without the main branch."""
        return list_branches(self._version.resolved.root)

    def history(self, newest: int | None = None) -> pa.Table:
        """Return what each version on the branch of this one did, oldest first.

        Args:
            newest: At most this many of the newest versions.

        Returns:
            A row for each version, with the schema `lancefs.table.history.HISTORY`: time and
            operation of the commit, numbers of rows added and deleted, changes of the schema. If
            files of a version are gone, the column `note` says so.

        Raises:
            TypeError: `newest` is no whole number.
            ValueError: `newest` is negative.
        """
        from lancefs.table.history import history_table, read_history

        if newest is not None:
            check_number("newest", newest)
        where = self._version.resolved
        return history_table(read_history(where, newest))

    def transaction(self) -> Transaction | None:
        """Read the transaction that committed this version; None if the version records none.

        Raises:
            MissingFile: The file of the transaction is gone.
        """
        from lancefs.table.transactions import read_transaction

        where, manifest = self._version.resolved, self._version.manifest
        with reading_sections(where.manifest, manifest):
            return read_transaction(where.store, where.manifest, manifest)

    def auxiliary_data(self) -> dict[str, bytes]:
        """Read the auxiliary data of the manifest by key; most versions have none."""
        file, manifest = self._version.resolved.manifest, self._version.manifest
        with reading_sections(file, manifest):
            return read_auxiliary_data(file, manifest)

    def indices(self) -> list[Index]:
        """Read the metadata of the indices of this version."""
        from lancefs.table.indices import indices_of

        return indices_of(self._version)

    def changes(
        self,
        since: Ref | str | int,
        until: Ref | str | int | None = None,
        key: Sequence[str] | None = None,
    ) -> pa.Table:
        """Compare two versions: return the rows that were inserted, deleted and updated.

        Args:
            since: The older version, on the branch of this one: a number, or a ref.
            until: The newer version; this one by default.
            key: Names of columns that identify a row: if a key is in both versions, its row was
                updated, whatever its row id is, even if the table was rewritten.

        Returns:
            A row for each change: the columns of the newer version, then `_rowid`, `_change_type`
            (`insert`, `delete`, `update_preimage`, `update_postimage`), `_commit_version` and
            `_commit_timestamp`; with a key also `_changed_columns`, the names of the columns that
            an update changed. Without a key or stable row ids, an update is a delete and an insert.

        Raises:
            ColumnNotFound: A column of the key is not in the newer version.
            RefNotFound: There is no such version.
            ValueError: The versions are on different branches, or not in this order; or two changed
                rows of a version have the same key, or the older version lacks a column of the key.
            MissingFile: A file of one of the versions is gone, or the table was recreated since
                this version was opened.
        """
        from lancefs.table.changes import read_changes
        from lancefs.table.version_rows import for_each

        refs = [since] if until is None else [until, since]
        opened = for_each(self._version, self._version.at, refs)
        return read_changes(opened[-1], self._version if until is None else opened[0], key)
