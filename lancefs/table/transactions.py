"""Transactions: the operation of a commit, the version it started from, and a summary in words.

A transaction is stored in a section of the manifest file, or in a file below `_transactions/` that
the manifest names. Writers may omit both, and clean-ups remove the files; a version is complete
without its transaction.

Format page: transactions (`docs/src/format/table/transaction.md`); messages:
`protos/transaction.proto`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lancefs.errors import locating
from lancefs.proto import table_pb2, transaction_pb2
from lancefs.storage import File, Store
from lancefs.table.base_paths import TableFiles
from lancefs.table.manifest import Manifest, read_section
from lancefs.table.messages import parse_message, plain

TRANSACTIONS = "_transactions"

# Property in which writers store the message of a commit.
MESSAGE = "__lance_commit_message"
UNKNOWN = "Unknown"
_FIRST_OPERATION = 100  # fields of the message with this number or a higher one are operations
_MAX_NAMES = 5  # names in a summary


@dataclass(frozen=True, slots=True)
class Transaction:
    """The transaction of a commit.

    Attributes:
        operation: The format's name of the operation (`Append`, `Delete`, `Rewrite`, …), or
            `Unknown`.
        summary: The operation in words, for instance `Append 2 fragments, 1,000 rows`.
        read_version: Version that the writer started from.
        uuid: Id of the transaction.
        tag: Tag as the earliest releases wrote it.
        properties: Properties that the writer set.
        message: The writer's message, if there is one.
        content: Protobuf message of the operation.
    """

    operation: str
    summary: str
    read_version: int
    uuid: str
    tag: str | None
    properties: Mapping[str, str]
    message: str | None
    content: Message | None = field(default=None, repr=False)

    @property
    def details(self) -> dict[str, Any]:
        """The operation as plain values, by the names of the format, without binary fields."""
        return {} if self.content is None else plain(self.content)


def read_transaction(store: Store, file: File, manifest: Manifest) -> Transaction | None:
    """Read the transaction that made a version.

    Args:
        store: The directory of the table, or of the branch.
        file: The manifest file.
        manifest: The decoded manifest.

    Returns:
        None if the manifest names no transaction.

    Raises:
        MissingFile: The transaction file is gone, for instance because of a clean-up.
        CorruptFile: The transaction does not decode.
    """
    if manifest.transaction_section is not None:
        with locating(file.url, "transaction"):
            return decode_transaction(read_section(file, manifest.transaction_section))
    if manifest.transaction_file is None:
        return None
    with locating(file.url):
        own_file = TableFiles(store).file(TRANSACTIONS, manifest.transaction_file)
    with locating(own_file.url):
        return decode_transaction(own_file.read_whole().tobytes())


def decode_transaction(data: bytes) -> Transaction:
    """Decode the message of a transaction.

    An operation that this release does not know has the name `Unknown`; the summary says so.

    Raises:
        CorruptFile: The bytes are not a transaction.
    """
    message = parse_message(transaction_pb2.Transaction(), data, "transaction")
    name = message.WhichOneof("operation")
    properties = dict(message.transaction_properties)
    return Transaction(
        operation=UNKNOWN if name is None else _camel(name),
        summary=_summarize_unknown(message)
        if name is None
        else _SUMMARIES[name](getattr(message, name)),
        read_version=message.read_version,
        uuid=message.uuid,
        tag=message.tag or None,
        properties=properties,
        message=properties.get(MESSAGE),
        content=None if name is None else getattr(message, name),
    )


def _camel(name: str) -> str:
    return name.title().replace("_", "")


def _summarize_unknown(message: transaction_pb2.Transaction) -> str:
    fields = UnknownFieldSet(message)
    numbers = [fields[position].field_number for position in range(len(fields))]
    operations = sorted({number for number in numbers if number >= _FIRST_OPERATION})
    if not operations:
        return "The transaction names no operation"
    return f"An operation that this release of lancefs does not know (field {operations[0]})"


# A function for each operation, which summarizes it in words.


def _append(message: transaction_pb2.Transaction.Append) -> str:
    return f"Append {_fragments(message.fragments)}"


def _delete(message: transaction_pb2.Transaction.Delete) -> str:
    where = f" where {message.predicate}" if message.predicate else ""
    effects = _deletions(message.updated_fragments, message.deleted_fragment_ids)
    return f"Delete{where}: {', '.join(effects) or 'no rows'}"


def _deletions(updated: Sized, dropped: Sized) -> list[str]:
    effects = []
    if len(updated):
        effects.append(f"{_count(len(updated), 'fragment')} with deletions")
    if len(dropped):
        effects.append(f"{_count(len(dropped), 'fragment')} dropped")
    return effects


def _overwrite(message: transaction_pb2.Transaction.Overwrite) -> str:
    columns = sum(field.parent_id == -1 for field in message.schema)
    return f"Overwrite with {_fragments(message.fragments)}, {_count(columns, 'column')}"


def _create_index(message: transaction_pb2.Transaction.CreateIndex) -> str:
    new, removed = _names(message.new_indices), _names(message.removed_indices)
    if not new:
        return f"Drop index {_enumerate(removed)}" if removed else "Create no index"
    return f"{'Create' if set(new).isdisjoint(removed) else 'Update'} index {_enumerate(new)}"


def _rewrite(message: transaction_pb2.Transaction.Rewrite) -> str:
    old = list(chain.from_iterable(group.old_fragments for group in message.groups))
    new = list(chain.from_iterable(group.new_fragments for group in message.groups))
    # Releases before groups listed the fragments in the operation itself.
    old, new = old or list(message.old_fragments), new or list(message.new_fragments)
    return f"Rewrite {_count(len(old), 'fragment')} as {_fragments(new)}"


def _merge(message: transaction_pb2.Transaction.Merge) -> str:
    columns = sum(field.parent_id == -1 for field in message.schema)
    return f"Merge columns into {_fragments(message.fragments)}: {_count(columns, 'column')} now"


def _project(message: transaction_pb2.Transaction.Project) -> str:
    names = [field.name for field in message.schema if field.parent_id == -1]
    return f"Project to {_count(len(names), 'column')}: {_enumerate(names)}"


def _restore(message: transaction_pb2.Transaction.Restore) -> str:
    return f"Restore version {message.version}"


def _reserve_fragments(message: transaction_pb2.Transaction.ReserveFragments) -> str:
    return f"Reserve {_count(message.num_fragments, 'fragment id')}"


def _update(message: transaction_pb2.Transaction.Update) -> str:
    rewritten = transaction_pb2.Transaction.REWRITE_COLUMNS
    if message.update_mode == rewritten and message.fields_modified:
        columns = _count(len(message.fields_modified), "field")
        return f"Update {columns} of {_count(len(message.updated_fragments), 'fragment')} in place"
    effects = _deletions(message.updated_fragments, message.removed_fragment_ids)
    effects.append(f"{_fragments(message.new_fragments)} written")
    return f"Update: {', '.join(effects)}"


def _update_config(message: transaction_pb2.Transaction.UpdateConfig) -> str:
    config = [*message.upsert_values, *message.delete_keys]
    config += [entry.key for entry in message.config_updates.update_entries]
    table = [entry.key for entry in message.table_metadata_updates.update_entries]
    schema = [*message.schema_metadata]
    schema += [entry.key for entry in message.schema_metadata_updates.update_entries]
    fields = len(message.field_metadata) + len(message.field_metadata_updates)
    kinds = {"config": config, "table metadata": table, "schema metadata": schema}
    changes = [f"{kind} {_enumerate(sorted(keys))}" for kind, keys in kinds.items() if keys]
    changes += [f"metadata of {_count(fields, 'field')}"] if fields else []
    return f"Update {', '.join(changes) or 'no setting'}"


def _data_replacement(message: transaction_pb2.Transaction.DataReplacement) -> str:
    return f"Replace data files of {_count(len(message.replacements), 'fragment')}"


def _update_mem_wal_state(message: transaction_pb2.Transaction.UpdateMemWalState) -> str:
    tables = _count(len(message.compacted_sstables), "generation")
    return f"Update the write-ahead log's state: {tables} in the table"


def _clone(message: transaction_pb2.Transaction.Clone) -> str:
    kind = "Shallow" if message.is_shallow else "Deep"
    clone = f"{kind} clone of version {message.ref_version}"
    if message.HasField("branch_name"):
        return f"{clone}, as branch {message.branch_name}"
    return f"{clone} of {message.ref_path}" if message.ref_path else clone


def _update_bases(message: transaction_pb2.Transaction.UpdateBases) -> str:
    return f"Add base paths {_enumerate([base.name or base.path for base in message.new_bases])}"


def _data_overlay(message: transaction_pb2.Transaction.DataOverlay) -> str:
    files = sum(len(group.overlays) for group in message.groups)
    where = _count(len(message.groups), "fragment")
    return f"Overlay cells of {where}: {_count(files, 'overlay file')}"


_SUMMARIES: Mapping[str, Callable[[Any], str]] = {
    "append": _append,
    "delete": _delete,
    "overwrite": _overwrite,
    "create_index": _create_index,
    "rewrite": _rewrite,
    "merge": _merge,
    "project": _project,
    "restore": _restore,
    "reserve_fragments": _reserve_fragments,
    "update": _update,
    "update_config": _update_config,
    "data_replacement": _data_replacement,
    "update_mem_wal_state": _update_mem_wal_state,
    "clone": _clone,
    "update_bases": _update_bases,
    "data_overlay": _data_overlay,
}


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _fragments(fragments: Iterable[table_pb2.DataFragment]) -> str:
    """Count fragments, and their rows if the writer recorded them."""
    row_counts = [fragment.physical_rows for fragment in fragments]
    count = _count(len(row_counts), "fragment")
    return f"{count}, {_count(sum(row_counts), 'row')}" if all(row_counts) else count


def _names(indices: Iterable[table_pb2.IndexMetadata]) -> list[str]:
    return list(dict.fromkeys(index.name for index in indices))


def _enumerate(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
