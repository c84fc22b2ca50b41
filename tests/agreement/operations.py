"""Changes of a table, made by pylance: what people do to tables in the course of time.

An operation has a few numbers drawn by hypothesis; what they mean depends on the table as it is
when the operation comes. One that pylance refuses leaves the table as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from agreement.columns import Column, Format, columns
from agreement.oracle import Refused
from agreement.values import Profile, make_table

# What a column can be changed to, and what can be written into it.
_WIDER = {
    "int8": pa.int32(),
    "int16": pa.int64(),
    "int32": pa.int64(),
    "uint8": pa.uint32(),
    "float": pa.float64(),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
}
_NEW = {"string": "'é new'", "int32": "7", "int64": "id * 2", "double": "0.5"}


@dataclass
class Writer:
    """A table that is being changed.

    Attributes:
        uri: Where it is.
        format: The version of its data files.
        rng: Where the values come from.
        profiles: What the values of columns are like, by name.
    """

    uri: str
    format: Format
    rng: np.random.Generator
    profiles: dict[str, Profile] = field(default_factory=dict)
    made: int = 0  # columns, rows or tags that got a name or id of their own

    def create(self, found: Sequence[Column], rows: int, **options: Any) -> pa.Table:
        """Write a table of these columns and an id, in place of the one that there may be."""
        self.profiles = {column.field.name: column.profile for column in found}
        schema = pa.schema([pa.field("id", pa.int64()), *(column.field for column in found)])
        options |= {"data_storage_version": self.format.version, "mode": "overwrite"}
        table = self.rows(schema, rows)
        lance.write_dataset(table, self.uri, **options)
        return table

    def open(self) -> lance.LanceDataset:
        """Open the newest version."""
        return lance.dataset(self.uri)

    def rows(self, schema: pa.Schema, count: int) -> pa.Table:
        """Make new rows, with new ids."""
        ids = range(self.made, self.made + count)
        self.made += count
        return make_table(schema, ids, self.profiles, self.rng)

    def name(self) -> str:
        """Make a new name."""
        self.made += 1
        return f"n{self.made}"


@dataclass(frozen=True)
class Operation:
    """A change: its name, what it takes from hypothesis, and what it does."""

    name: str
    argument: int
    columns: tuple[Column, ...]
    change: Callable[[Writer, Operation], None] = field(repr=False)

    def apply(self, writer: Writer) -> None:
        """Change the table; whatever pylance raises comes through."""
        self.change(writer, self)


def _append(writer: Writer, operation: Operation) -> None:
    rows = writer.rows(writer.open().schema, operation.argument)
    lance.write_dataset(rows, writer.uri, mode="append")


def _overwrite(writer: Writer, operation: Operation) -> None:
    writer.create(operation.columns, operation.argument)


def _delete_some(writer: Writer, operation: Operation) -> None:
    writer.open().delete(f"id % {operation.argument % 7 + 1} = 0")


def _delete_range(writer: Writer, operation: Operation) -> None:
    start = operation.argument % (writer.made + 1)
    writer.open().delete(f"id >= {start // 2} AND id < {start}")


def _add_null_column(writer: Writer, operation: Operation) -> None:
    column = operation.columns[0]
    added = column.field.with_name(writer.name()).with_nullable(True)
    writer.profiles[added.name] = column.profile
    writer.open().add_columns(added)


def _add_values(writer: Writer, operation: Operation) -> None:
    column, dataset = operation.columns[0], writer.open()
    added = column.field.with_name(writer.name())
    writer.profiles[added.name] = column.profile
    rows = make_table(
        pa.schema([added]), range(dataset.count_rows()), writer.profiles, writer.rng
    ).combine_chunks()
    dataset.add_columns(rows.to_reader(max_chunksize=operation.argument % 900 + 100))


def _add_computed(writer: Writer, operation: Operation) -> None:
    writer.open().add_columns({writer.name(): f"id % {operation.argument % 100 + 1}"})


def _drop(writer: Writer, operation: Operation) -> None:
    dataset = writer.open()
    dataset.drop_columns([_other(dataset, operation.argument)])


def _drop_member(writer: Writer, operation: Operation) -> None:
    dataset = writer.open()
    structs = [field for field in dataset.schema if pa.types.is_struct(field.type)]
    # Of packed ones pylance then reads the wrong bytes: see test_beyond_lance.
    loose = [field for field in structs if b"lance-encoding:packed" not in (field.metadata or {})]
    chosen = _choose(loose, operation.argument)
    dataset.drop_columns([f"{chosen.name}.{chosen.type.field(0).name}"])


def _rename(writer: Writer, operation: Operation) -> None:
    dataset, new = writer.open(), writer.name()
    old = _other(dataset, operation.argument)
    writer.profiles[new] = writer.profiles.get(old, Profile())
    dataset.alter_columns({"path": old, "name": new})


def _cast(writer: Writer, operation: Operation) -> None:
    dataset = writer.open()
    found = [field for field in dataset.schema if str(field.type) in _WIDER]
    chosen = _choose(found, operation.argument)
    dataset.alter_columns({"path": chosen.name, "data_type": _WIDER[str(chosen.type)]})


def _update(writer: Writer, operation: Operation) -> None:
    dataset = writer.open()
    found = [field for field in list(dataset.schema)[1:] if str(field.type) in _NEW]
    chosen = _choose(found, operation.argument)
    values = {chosen.name: "NULL" if operation.argument % 2 else _NEW[str(chosen.type)]}
    dataset.update(values, where=f"id % {operation.argument % 5 + 1} = 0")


def _merge(writer: Writer, operation: Operation) -> None:
    dataset = writer.open()
    known = dataset.to_table(columns=["id"])["id"].to_numpy()
    old = writer.rng.permutation(known)[: operation.argument // 2].tolist()
    new = list(range(writer.made, writer.made + operation.argument // 2))
    writer.made += len(new)
    schema = dataset.schema
    if operation.argument % 2:  # the columns that are not given keep their values
        schema = pa.schema([schema.field("id"), *list(schema)[-1:]])
    rows = make_table(schema, old + new, writer.profiles, writer.rng)
    merge = dataset.merge_insert("id").when_matched_update_all()
    if operation.argument % 3:
        merge = merge.when_not_matched_insert_all()
    merge.execute(rows)


def _compact(writer: Writer, operation: Operation) -> None:
    writer.open().optimize.compact_files(
        target_rows_per_fragment=operation.argument + 100,
        materialize_deletions_threshold=0.0,
        num_threads=1,
    )


def _tag(writer: Writer, operation: Operation) -> None:
    dataset = writer.open()
    versions = [found["version"] for found in dataset.versions()]
    dataset.tags.create(writer.name(), versions[operation.argument % len(versions)])


def _restore(writer: Writer, operation: Operation) -> None:
    dataset = writer.open()
    versions = [found["version"] for found in dataset.versions()]
    dataset.checkout_version(versions[operation.argument % len(versions)]).restore()


def _other(dataset: lance.LanceDataset, argument: int) -> str:
    """Choose a column that is not the id."""
    return str(_choose(list(dataset.schema)[1:], argument).name)


def _choose(fields: Sequence[pa.Field], argument: int) -> pa.Field:
    if not fields:
        raise Refused("no column that this can be done to")
    return fields[argument % len(fields)]


_CHANGES = [
    _append,
    _delete_some,
    _add_null_column,
    _add_values,
    _drop,
    _rename,
    _delete_range,
    _update,
    _merge,
    _compact,
    _add_computed,
    _cast,
    _drop_member,
    _tag,
    _restore,
    _overwrite,
]


def operations(format_: Format) -> st.SearchStrategy[list[Operation]]:
    """Some random changes, one after the other, to data files of a format."""
    one = st.builds(
        lambda change, argument, found: Operation(
            change.__name__[1:], argument, tuple(found), change
        ),
        st.sampled_from(_CHANGES),
        st.sampled_from([0, 1, 2, 5, 24, 333, 1000, 2500]) | st.integers(0, 100),
        columns(format_, 2),
    )
    return st.lists(one, max_size=5)
