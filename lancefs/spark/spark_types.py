"""Types: what Spark sees of an Arrow type. `spark_values` turns values into it.

A type that Spark cannot hold is refused by name when the table is opened. The table of types is in
docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types as spark

from lancefs.datafile.logical_types import EXTENSION_NAME, storage_of
from lancefs.errors import UnsupportedFeature
from lancefs.spark.table_options import Nanoseconds, Unsupported
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_ID, ROW_METADATA

_BFLOAT16 = b"lance.bfloat16"
_UUID = b"arrow.uuid"
UUID_STORAGE = pa.binary(16)
_MAX_DIGITS = 38

_SIMPLE: dict[pa.DataType, Callable[[], spark.DataType]] = {
    pa.bool_(): spark.BooleanType,
    pa.int8(): spark.ByteType,
    pa.int16(): spark.ShortType,
    pa.int32(): spark.IntegerType,
    pa.int64(): spark.LongType,
    pa.uint8(): spark.ShortType,
    pa.uint16(): spark.IntegerType,
    pa.uint32(): spark.LongType,
    pa.uint64(): lambda: spark.DecimalType(20, 0),
    pa.float16(): spark.FloatType,
    pa.float32(): spark.FloatType,
    pa.float64(): spark.DoubleType,
    pa.string(): spark.StringType,
    pa.large_string(): spark.StringType,
    pa.binary(): spark.BinaryType,
    pa.large_binary(): spark.BinaryType,
    pa.date32(): spark.DateType,
    pa.date64(): spark.DateType,
    pa.null(): spark.NullType,
}


# What Spark wants in batches; PySpark's own function for it is another one in each release.
_ARROW: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
    spark.TimeType: pa.time64("ns"),
    spark.NullType: pa.null(),
}


class _NoType(Exception):
    """A type that Spark has no counterpart for."""


class _Rules(NamedTuple):
    """What becomes of types that Spark does not have.

    Attributes:
        nanoseconds: What becomes of nanoseconds.
        spells_out: Whether decimals of too many digits are texts.
    """

    nanoseconds: Nanoseconds
    spells_out: bool


def spark_schema(
    schema: pa.Schema, nanoseconds: Nanoseconds = "error", unsupported: Unsupported = "error"
) -> spark.StructType:
    """Return the columns of a table as Spark sees them.

    Args:
        schema: The columns.
        nanoseconds: What becomes of nanoseconds.
        unsupported: What becomes of columns that Spark cannot hold: an error, left out, or texts.

    Raises:
        UnsupportedFeature: Columns are of types that Spark cannot hold; they are named.
    """
    fields, refused = [], []
    rules = _Rules(nanoseconds, spells_out=unsupported == "string")
    for field in schema:
        try:
            if field.name in ROW_METADATA:  # always below 2⁶³
                data_type: spark.DataType = spark.LongType()
            else:
                data_type = _spark_type(field, rules)
        except _NoType as error:
            if unsupported != "skip":
                refused.append(f"{field.name} ({error})")
        else:
            fields.append(spark.StructField(field.name, data_type, field.nullable))
    if refused:
        others = [field.name for field in fields][:5]
        raise UnsupportedFeature(
            f"Spark has no type for {', '.join(refused)}; leave such columns out with the option "
            f"columns{' = ' + ','.join(others) if others else ''}, or with unsupported = skip; "
            "unsupported = string reads decimals as texts"
        )
    return spark.StructType(fields)


def nullable(schema: spark.StructType) -> spark.StructType:
    """Return columns as Spark sees them, all of which may be null."""
    return spark.StructType([spark.StructField(f.name, f.dataType) for f in schema.fields])


def with_intervals(found: spark.DataType, data_type: pa.DataType) -> Any:
    """Return the type of a column in Parquet, where numbers of microseconds are intervals.

    Args:
        found: What Spark sees in a Parquet file, in which an interval is a number.
        data_type: The type that the column was written with.
    """
    data_type = storage_of(data_type)
    if data_type == _ARROW[spark.DayTimeIntervalType]:
        return spark.DayTimeIntervalType()
    if isinstance(found, spark.StructType):
        members = {data_type.field(i).name: data_type.field(i) for i in range(data_type.num_fields)}
        fields = [(one, with_intervals(one.dataType, members[one.name].type)) for one in found]
        return spark.StructType([spark.StructField(f.name, t, f.nullable) for f, t in fields])
    if isinstance(found, spark.ArrayType):
        item = with_intervals(found.elementType, data_type.value_type)
        return spark.ArrayType(item, found.containsNull)
    if isinstance(found, spark.MapType):
        key = with_intervals(found.keyType, data_type.key_type)
        value = with_intervals(found.valueType, data_type.item_type)
        return spark.MapType(key, value, found.valueContainsNull)
    return found


def denied_nulls(own: spark.StructField, wanted: spark.StructField) -> str | None:
    """Return where values may be null though a schema says not; None without.

    Args:
        own: A column.
        wanted: The same column, with the same type, in that schema.
    """
    name: str = own.name
    if own.nullable and not wanted.nullable:
        return name
    for pair in zip(_members(own.dataType), _members(wanted.dataType), strict=True):
        place = denied_nulls(*pair)
        if place is not None:
            return f"{name}.{place}"
    return None


def _members(data_type: spark.DataType) -> list[spark.StructField]:
    """The members of a struct; the items of a list and of a map as if they were some."""
    if isinstance(data_type, spark.StructType):
        return list(data_type.fields)
    if isinstance(data_type, spark.ArrayType):
        return [spark.StructField("element", data_type.elementType, data_type.containsNull)]
    if isinstance(data_type, spark.MapType):
        value = spark.StructField("value", data_type.valueType, data_type.valueContainsNull)
        return [spark.StructField("key", data_type.keyType, False), value]
    return []


def read_schema(
    version: OpenVersion, names: Sequence[str] | None = None, with_row_id: bool = False
) -> pa.Schema:
    """Return the columns that a read of a version gives, before Spark's types.

    It is the schema of a scan of these columns. No scan is made for it, since Spark plans in
    processes that would have to import what decodes.

    Args:
        version: The version.
        names: The columns, in order, row metadata among them; all of the table by default.
        with_row_id: Whether `_rowid` comes last, unless it is named.

    Raises:
        ColumnNotFound: There is no such column.
        UnsupportedFeature: A column is of a type that this release does not read.
    """
    fields = list(version.fields) if names is None else [version.column(name) for name in names]
    if with_row_id and ROW_ID not in fields:
        fields.append(ROW_ID)
    return pa.schema([field.to_arrow() for field in fields])


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark wants batches of these columns to have."""
    fields = [pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in schema]
    return pa.schema(fields)


def _spark_type(field: pa.Field, rules: _Rules) -> spark.DataType:
    data_type = storage_of(field.type)
    if is_bfloat16(field):
        return spark.FloatType()
    if is_uuid(field):
        return spark.StringType()
    if data_type in _SIMPLE:
        return _SIMPLE[data_type]()
    if pa.types.is_fixed_size_binary(data_type):
        return spark.BinaryType()
    if pa.types.is_dictionary(data_type):
        return _spark_type(field.with_type(data_type.value_type), rules)
    if pa.types.is_decimal(data_type):
        return _decimal_type(data_type, rules)
    if pa.types.is_temporal(data_type):
        return _temporal_type(data_type, rules)
    return _nested_type(data_type, rules)


def _temporal_type(data_type: pa.DataType, rules: _Rules) -> spark.DataType:
    if data_type.unit == "ns" and rules.nanoseconds == "long":
        return spark.LongType()
    if pa.types.is_time(data_type):
        return spark.TimeType()
    if pa.types.is_duration(data_type):
        return spark.DayTimeIntervalType()
    return spark.TimestampNTZType() if data_type.tz is None else spark.TimestampType()


def _decimal_type(data_type: pa.DataType, rules: _Rules) -> spark.DataType:
    # Digits before a scale below zero are zeros, which Spark keeps as digits.
    precision, scale = data_type.precision - min(0, data_type.scale), max(0, data_type.scale)
    if precision > _MAX_DIGITS or scale > precision:
        if rules.spells_out:
            return spark.StringType()
        raise _NoType(f"{data_type}, Spark's decimals have at most {_MAX_DIGITS} digits")
    return spark.DecimalType(precision, scale)


def _nested_type(data_type: pa.DataType, rules: _Rules) -> spark.DataType:
    if pa.types.is_struct(data_type):
        fields = [data_type.field(i) for i in range(data_type.num_fields)]
        # All may be null: where the struct is null, Spark says that its members are.
        return spark.StructType([spark.StructField(f.name, _spark_type(f, rules)) for f in fields])
    if pa.types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return spark.MapType(_spark_type(key, rules), _spark_type(item, rules), item.nullable)
    if _is_list(data_type):
        item = data_type.value_field
        return spark.ArrayType(_spark_type(item, rules), item.nullable)
    raise _NoType(str(data_type))


def _arrow_type(data_type: spark.DataType) -> pa.DataType:
    if isinstance(data_type, spark.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, spark.StructType):
        return pa.struct(list(arrow_schema(data_type)))
    if isinstance(data_type, spark.ArrayType):
        item = _arrow_type(data_type.elementType)
        return pa.list_(pa.field("element", item, data_type.containsNull))
    if isinstance(data_type, spark.MapType):
        key, value = _arrow_type(data_type.keyType), _arrow_type(data_type.valueType)
        return pa.map_(key, pa.field("value", value, data_type.valueContainsNull))
    for kind, arrow in _ARROW.items():
        if isinstance(data_type, kind):
            return arrow
    raise UnsupportedFeature(f"columns of the type {data_type.simpleString()}")


def is_uuid(field: pa.Field) -> bool:
    """Return whether values are UUIDs, of which Spark sees the texts."""
    return bool(storage_of(field.type) == UUID_STORAGE) and _extension(field) == _UUID


def is_bfloat16(field: pa.Field) -> bool:
    """Return whether values are bfloat16, of which Spark sees floats."""
    return _extension(field) == _BFLOAT16


def _extension(field: pa.Field) -> bytes | None:
    """The name of the extension type; a pyarrow that does not know it leaves it in metadata."""
    if isinstance(field.type, pa.BaseExtensionType):
        name: str = field.type.extension_name
        return name.encode()
    return (field.metadata or {}).get(EXTENSION_NAME)


def _is_list(data_type: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(kind(data_type) for kind in kinds)
