"""Transactions: what a commit did, from which version, and in words.

A transaction stands in a section of the manifest file, or in a file of its own below
`_transactions/` that the manifest names. Writers may leave out either, and clean-ups remove the
files; a version is complete without them.

Format page: transactions (`docs/src/format/table/transaction.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from lancefs.errors import CorruptFile, locating
from lancefs.proto import table_pb2, transaction_pb2
from lancefs.storage import File, Store
from lancefs.table.base_paths import TableFiles
from lancefs.table.manifest import Manifest, read_section
from lancefs.table.messages import plain

TRANSACTIONS = "_transactions"

# The property under which writers leave the message of a commit.
MESSAGE = "__lance_commit_message"
UNKNOWN = "Unknown"
_FIRST_OPERATION = 100  # fields of the message from here on are operations
_SHOWN = 5  # names in a summary


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a commit did.

    Attributes:
        operation: As the format names it (`Append`, `Delete`, `Rewrite`, …), or `Unknown`.
        summary: In words, for instance `Append 2 fragments, 1,000 rows`.
        read_version: The version that the writer saw.
        uuid: Its own.
        tag: As the earliest releases wrote it.
        properties: What the writer noted.
        message: The writer's message, where there is one.
        content: The message of the operation.
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
        """The operation as plain values, under the names of the format, without what is binary."""
        return {} if self.content is None else plain(self.content)


def read_transaction(store: Store, file: File, manifest: Manifest) -> Transaction | None:
    """Read the transaction that made a version.

    Args:
        store: The directory of the table, or of the branch.
        file: The manifest file.
        manifest: What it says.

    Returns:
        None where the version names none.

    Raises:
        MissingFile: Its file is gone, for instance because it was cleaned up.
        CorruptFile: It does not decode.
    """
    if manifest.transaction_section is not None:
        with locating(file.url, "transaction"):
            return decode_transaction(read_section(file, manifest.transaction_section))
    if manifest.transaction_file is None:
        return None
    with locating(file.url):
        own = TableFiles(store).file(TRANSACTIONS, manifest.transaction_file)
    with locating(own.url):
        return decode_transaction(own.read_whole().tobytes())


def decode_transaction(data: bytes) -> Transaction:
    """Decode the message of a transaction.

    An operation that this release does not know is called `Unknown`, and the summary says so.

    Raises:
        CorruptFile: The bytes are no such message.
    """
    message = transaction_pb2.Transaction()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptFile(f"the transaction does not decode: {error}") from error
    name = message.WhichOneof("operation")
    properties = dict(message.transaction_properties)
    return Transaction(
        operation=UNKNOWN if name is None else _camel(name),
        summary=_unknown(message) if name is None else _SUMMARIES[name](getattr(message, name)),
        read_version=message.read_version,
        uuid=message.uuid,
        tag=message.tag or None,
        properties=properties,
        message=properties.get(MESSAGE),
        content=None if name is None else getattr(message, name),
    )


def _camel(name: str) -> str:
    return name.title().replace("_", "")


def _unknown(message: transaction_pb2.Transaction) -> str:
    fields = UnknownFieldSet(message)
    numbers = [fields[position].field_number for position in range(len(fields))]
    operations = sorted({number for number in numbers if number >= _FIRST_OPERATION})
    if not operations:
        return "The transaction names no operation"
    return f"An operation that this release of lancefs does not know (field {operations[0]})"


# One function an operation, which puts it into words.


def _append(message: transaction_pb2.Transaction.Append) -> str:
    return f"Append {_fragments(message.fragments)}"


def _delete(message: transaction_pb2.Transaction.Delete) -> str:
    where = f" where {message.predicate}" if message.predicate else ""
    touched = [
        _count(len(message.updated_fragments), "fragment") + " with deletions",
        _count(len(message.deleted_fragment_ids), "fragment") + " dropped",
    ]
    counts = (len(message.updated_fragments), len(message.deleted_fragment_ids))
    said = [text for text, count in zip(touched, counts, strict=True) if count]
    return f"Delete{where}: {', '.join(said) or 'no rows'}"


def _overwrite(message: transaction_pb2.Transaction.Overwrite) -> str:
    columns = sum(field.parent_id == -1 for field in message.schema)
    return f"Overwrite with {_fragments(message.fragments)}, {_count(columns, 'column')}"


def _create_index(message: transaction_pb2.Transaction.CreateIndex) -> str:
    made, dropped = _names(message.new_indices), _names(message.removed_indices)
    if not made:
        return f"Drop index {dropped}" if dropped else "Create no index"
    replaced = {index.name for index in message.removed_indices}
    known = {index.name for index in message.new_indices} & replaced
    return f"{'Update' if known else 'Create'} index {made}"


def _rewrite(message: transaction_pb2.Transaction.Rewrite) -> str:
    groups = list(message.groups)
    old = [one for group in groups for one in group.old_fragments] or list(message.old_fragments)
    new = [one for group in groups for one in group.new_fragments] or list(message.new_fragments)
    return f"Rewrite {_count(len(old), 'fragment')} as {_fragments(new)}"


def _merge(message: transaction_pb2.Transaction.Merge) -> str:
    columns = sum(field.parent_id == -1 for field in message.schema)
    return f"Merge columns into {_fragments(message.fragments)}: {_count(columns, 'column')} now"


def _project(message: transaction_pb2.Transaction.Project) -> str:
    names = [field.name for field in message.schema if field.parent_id == -1]
    return f"Project to {_count(len(names), 'column')}: {_listed(names)}"


def _restore(message: transaction_pb2.Transaction.Restore) -> str:
    return f"Restore version {message.version}"


def _reserve_fragments(message: transaction_pb2.Transaction.ReserveFragments) -> str:
    return f"Reserve {_count(message.num_fragments, 'fragment id')}"


def _update(message: transaction_pb2.Transaction.Update) -> str:
    rewritten = transaction_pb2.Transaction.REWRITE_COLUMNS
    if message.update_mode == rewritten and message.fields_modified:
        columns = _count(len(message.fields_modified), "field")
        return f"Update {columns} of {_count(len(message.updated_fragments), 'fragment')} in place"
    said = []
    if message.updated_fragments:
        said.append(f"{_count(len(message.updated_fragments), 'fragment')} with deletions")
    if message.removed_fragment_ids:
        said.append(f"{_count(len(message.removed_fragment_ids), 'fragment')} dropped")
    said.append(f"{_fragments(message.new_fragments)} written")
    return f"Update: {', '.join(said)}"


def _update_config(message: transaction_pb2.Transaction.UpdateConfig) -> str:
    config = [*message.upsert_values, *message.delete_keys]
    config += [entry.key for entry in message.config_updates.update_entries]
    table = [entry.key for entry in message.table_metadata_updates.update_entries]
    schema = [*message.schema_metadata]
    schema += [entry.key for entry in message.schema_metadata_updates.update_entries]
    fields = len(message.field_metadata) + len(message.field_metadata_updates)
    kinds = {"config": config, "table metadata": table, "schema metadata": schema}
    said = [f"{kind} {_listed(sorted(keys))}" for kind, keys in kinds.items() if keys]
    said += [f"metadata of {_count(fields, 'field')}"] if fields else []
    return f"Update {', '.join(said) or 'no setting'}"


def _data_replacement(message: transaction_pb2.Transaction.DataReplacement) -> str:
    return f"Replace data files of {_count(len(message.replacements), 'fragment')}"


def _update_mem_wal_state(message: transaction_pb2.Transaction.UpdateMemWalState) -> str:
    tables = _count(len(message.compacted_sstables), "generation")
    return f"Update the write-ahead log's state: {tables} in the table"


def _clone(message: transaction_pb2.Transaction.Clone) -> str:
    kind = "Shallow" if message.is_shallow else "Deep"
    said = f"{kind} clone of version {message.ref_version}"
    if message.HasField("branch_name"):
        return f"{said}, as branch {message.branch_name}"
    return f"{said} of {message.ref_path}" if message.ref_path else said


def _update_bases(message: transaction_pb2.Transaction.UpdateBases) -> str:
    return f"Add base paths {_listed([base.name or base.path for base in message.new_bases])}"


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
    """Count fragments, and their rows where the writer said how many."""
    counts = [fragment.physical_rows for fragment in fragments]
    said = _count(len(counts), "fragment")
    return f"{said}, {_count(sum(counts), 'row')}" if all(counts) else said


def _names(indices: Iterable[table_pb2.IndexMetadata]) -> str:
    return _listed(list(dict.fromkeys(index.name for index in indices)))


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
