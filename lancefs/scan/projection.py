"""The projection of a scan: its columns by name, or expressions over columns by new names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arguments import list_columns
from lancefs.datafile.arrays import without_columns
from lancefs.datafile.fields import Blobs, Field
from lancefs.table.members import nested, paths_of
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID

# Names of columns, or names for expressions over columns.
Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression | str]
_BLOBS = get_args(Blobs)


class Projection:
    """The columns that a scan reads, and what it returns of them.

    Args:
        version: The version of the table.
        shown: The columns of the dataset, with row metadata that was added to them.
        columns: Names of columns, in the order wanted, or a dict of new names and expressions; all
            columns of the dataset by default.
        with_row_id: Whether to add the column `_rowid`.
        with_row_address: Whether to add the column `_rowaddr`.
        blobs: What blob columns contain.

    Attributes:
        fields: The columns and members of structs that are read.
        given: The argument `columns`, an iterator as a list.
        expressions: What is computed of them, by name; None where they are returned as they are.

    Raises:
        ColumnNotFound: A column is not in the table.
        TypeError: The columns are no list of names, and no dict of names and expressions.
        ValueError: There is no such form of blobs, or it contradicts the columns.
    """

    def __init__(
        self,
        version: OpenVersion,
        shown: tuple[Field, ...],
        columns: Columns | None,
        *,
        with_row_id: bool,
        with_row_address: bool,
        blobs: Blobs,
    ) -> None:
        self.given: Columns | None = list_columns(columns)
        self._metadata = dict(version.manifest.schema_metadata) or None
        extra = [ROW_ID.name] * with_row_id + [ROW_ADDRESS.name] * with_row_address
        columns = _add_row_metadata(self.given, extra, shown)
        columns = _name_descriptors(columns, blobs, version)
        self.expressions: Mapping[str, pc.Expression] | None = None
        if columns is None:
            self.fields = shown
        elif isinstance(columns, Mapping):
            from lancefs.scan.parsed_filters import fields_read

            self.expressions = _named_expressions(columns, version)
            self.fields = fields_read(list(self.expressions.values()), version)
        else:
            self.fields = tuple(version.column(name) for name in columns)

    def __len__(self) -> int:
        """The number of columns of the result."""
        return len(self.fields if self.expressions is None else self.expressions)

    def schema(self, read: pa.Schema) -> pa.Schema:
        """Return the schema of the result.

        Args:
            read: The schema of the columns that are read.
        """
        if self.expressions is None:
            return read.with_metadata(self._metadata)
        columns = [pa.nulls(0, data_type) for data_type in read.types]
        return self._compute(pa.RecordBatch.from_arrays(columns, schema=read)).schema

    def apply(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the metadata of the table's schema, or with expressions evaluated.

        Args:
            batches: Batches of the columns that are read.
        """
        for batch in batches:
            if self.expressions is not None:
                yield self._compute(batch)
            else:
                yield batch.replace_schema_metadata(self._metadata) if self._metadata else batch

    def _compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        from lancefs.scan import expressions

        if not self.expressions:
            return without_columns(batch.num_rows)
        batch = nested(batch, paths_of(self.fields))
        arrays = expressions.evaluate(list(self.expressions.values()), batch)
        return pa.RecordBatch.from_arrays(arrays, names=list(self.expressions))


def _add_row_metadata(
    columns: Columns | None, extra: Sequence[str], shown: Sequence[Field]
) -> Columns | None:
    """Add columns of row metadata to those that are wanted."""
    if not extra:
        return columns
    if isinstance(columns, Mapping):
        return {**columns, **{name: name for name in extra if name not in columns}}
    names = [field.name for field in shown] if columns is None else list(columns)
    return names + [name for name in extra if name not in names]


def _name_descriptors(
    columns: Columns | None, blobs: Blobs, version: OpenVersion
) -> Columns | None:
    """Make expressions of columns where there are members of descriptors, which are read whole.

    Raises:
        ValueError: There are, but blobs come as bytes; or there is no such form of blobs.
    """
    if blobs not in _BLOBS:
        raise ValueError(f"blobs is {blobs!r}; one of {_BLOBS} was expected")
    values = columns.values() if isinstance(columns, Mapping) else columns or ()
    names = (value for value in values if isinstance(value, str))
    members = [name for name in names if version.is_of_descriptor(name)]
    if members and blobs == "bytes":
        raise ValueError(
            f"{members[0]!r} is of a blob's descriptor, in place of which blobs='bytes' reads "
            "the blob; leave out one of both"
        )
    is_list = columns is not None and not isinstance(columns, Mapping)
    return {name: name for name in columns or ()} if members and is_list else columns


def _named_expressions(
    columns: Mapping[str, pc.Expression | str], version: OpenVersion
) -> dict[str, pc.Expression]:
    """Return what a scan computes, columns that are named as expressions.

    Args:
        columns: Expressions, or names of columns, by the names of what comes out.
        version: The version whose columns they name.

    Raises:
        ColumnNotFound: There is no such column.
        TypeError: A value is neither a name nor an expression.
    """

    def of_column(name: str) -> pc.Expression:
        field = version.column(name)
        return pc.field(*(part.name for part in field.way or (field,)))

    for name, value in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"columns has {name!r} as the name of a column; a text was expected")
        if not isinstance(value, str | pc.Expression):
            expected = f"or an expression, such as pyarrow.compute.scalar({value!r}),"
            raise TypeError(f"columns has {value!r} for {name!r}; a name {expected} was expected")
    return {
        name: of_column(value) if isinstance(value, str) else value
        for name, value in columns.items()
    }
