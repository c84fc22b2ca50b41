"""Types: every corpus case in Spark is what is expected of it, or refused by the type's name.

What Spark shows is turned back into the table's own type, by rules that are written here once more,
and must then be the expected value. So nothing was lost on the way.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import comparison
import lance
import numpy as np
import pyarrow as pa
import pytest
from support import CorpusRef, corpus_refs, needs_corpus

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

import lancefs
import lancefs.spark
from lancefs.errors import UnsupportedFeature
from lancefs.spark.spark_types import arrow_schema, spark_schema
from lancefs.spark.spark_values import convert

REFS = [ref for ref in corpus_refs() if ref.expected()]
# Spark reads one version of each table; the others go through the same conversion without it.
LAST = list({ref.case.name: ref for ref in REFS}.values())


def expected_rows(ref: CorpusRef) -> pa.Table:
    path = ref.expected()
    assert path is not None
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


@cache
def of_each_schema() -> frozenset[str]:
    """A table of each schema in each version of data files."""
    found = {(ref.case.info["file_version"], str(expected_rows(ref).schema)): ref for ref in LAST}
    return frozenset(map(str, found.values()))


def refused(schema: pa.Schema) -> list[str]:
    """The columns that Spark cannot hold, as the table in docs/spark.md has them."""
    return [
        field.name for field in schema if re.search(r"decimal256\((39|[4-7]\d)", str(field.type))
    ]


def storage(data_type: pa.DataType) -> pa.DataType:
    return storage(data_type.storage_type) if hasattr(data_type, "storage_type") else data_type


def back(array: pa.Array, field: pa.Field) -> pa.Array:
    """Turn what Spark shows into a type of the table."""
    wanted = storage(field.type)
    is_bfloat16 = b"lance.bfloat16" in (field.metadata or {}).values() or "bfloat16" in str(
        field.type
    )
    if is_bfloat16 and not pa.types.is_nested(wanted):
        bits = [
            None if v is None else int(np.float32(v).view(np.uint32)) >> 16
            for v in array.to_pylist()
        ]
        data = [None if b is None else int(b).to_bytes(2, "little") for b in bits]
        return pa.array(data, pa.binary(2))
    if getattr(field.type, "extension_name", "") == "arrow.uuid":
        texts = [None if text is None else UUID(text) for text in array.to_pylist()]
        assert [None if value is None else str(value) for value in texts] == array.to_pylist()
        return pa.array([None if value is None else value.bytes for value in texts], wanted)
    if pa.types.is_dictionary(wanted):
        return array.cast(wanted.value_type)
    if pa.types.is_struct(wanted):
        arrays = [back(array.field(i), wanted.field(i)) for i in range(wanted.num_fields)]
        if not arrays:
            return pa.array(array.to_pylist(), wanted)
        fields = [wanted.field(i).with_type(one.type) for i, one in enumerate(arrays)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=array.is_null())
    if pa.types.is_map(wanted):
        keys, items = back(array.keys, wanted.key_field), back(array.items, wanted.item_field)
        made = pa.MapArray.from_arrays(array.offsets, keys, items)
        return pa.array(
            pa.array(made.to_pylist(), made.type).to_pylist(), made.type, mask=nulls(array)
        )
    if pa.types.is_list(array.type):
        items = back(array.values, wanted.value_field)
        made = pa.ListArray.from_arrays(array.offsets, items, mask=array.is_null())
        if pa.types.is_fixed_size_list(wanted):
            made = made.cast(pa.list_(items.type, wanted.list_size))
        return made.cast(pa.large_list(items.type)) if pa.types.is_large_list(wanted) else made
    if pa.types.is_temporal(wanted) and array.type == pa.int64():
        return array.view(wanted)
    if pa.types.is_float16(wanted):
        values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float16)
        return pa.array(values, mask=nulls(array))
    return array.cast(wanted)


def nulls(array: pa.Array) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False)


def check(got: pa.Table, expected: pa.Table) -> None:
    """Assert that a table in Spark's types is the expected one."""
    assert got.column_names == expected.column_names
    for name, field in zip(expected.column_names, expected.schema, strict=True):
        whole = got.column(name).combine_chunks()
        whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        one, other = back(whole, field), expected.column(name)
        while hasattr(other.type, "storage_type"):
            other = pa.chunked_array([c.storage for c in other.chunks], other.type.storage_type)
        plain = pa.table({name: pa.chunked_array([one])})
        wanted = pa.table({name: other})
        fields = pa.schema([pa.field(name, wanted.schema.field(0).type)])
        _values_only(plain, wanted, fields)


def _values_only(got: pa.Table, expected: pa.Table, schema: pa.Schema) -> None:
    # Types below were compared on the way back; names and metadata there are no values.

    one, other = (comparison._whole(t.column(0)) for t in (got, expected))
    comparison._compare(one, other, schema.names[0], np.arange(len(other)))


@needs_corpus
@pytest.mark.parametrize("ref", LAST, ids=str)
def test_spark_reads_what_is_expected(spark: Any, ref: CorpusRef) -> None:
    expected = expected_rows(ref)
    left_out = refused(expected.schema)
    path, at = ref.case.table(), ref.ref
    reader = spark.read.format("lancefs").option("nanoseconds", "long")
    given = {"version": at.version, "tag": at.tag, "branch": at.branch}
    reader = reader.options(**{k: str(v) for k, v in given.items() if v is not None})
    if left_out:
        with pytest.raises(Exception, match=rf"Spark has no type for {left_out[0]} \(decimal256"):
            reader.load(path)
        expected = expected.drop_columns(left_out)
        names = [name.replace('"', '\\"') for name in expected.column_names]
        reader = reader.option("columns", "[" + ",".join(f'"{name}"' for name in names) + "]")
    if not expected.column_names:
        return
    frame = reader.load(path)
    check(in_order(frame), expected)
    if str(ref) in of_each_schema():  # the other way to read it converts alike
        names = expected.column_names
        by_helper = lancefs.spark.read(spark, path, columns=names, nanoseconds="long", **given)
        assert by_helper.schema == frame.schema
        check(in_order(by_helper), expected)


def in_order(frame: Any) -> pa.Table:
    """The rows in the table's order: that of Spark's partitions."""
    # Of lists without a type Spark 4.3 makes Arrow arrays that are none, whoever they are from.
    untyped = [f.name for f in frame.schema if "array<void>" in f.dataType.simpleString()]
    table = frame.drop(*untyped).toArrow()
    if untyped:
        quoted = [f"`{name}`" for name in untyped]
        rows = [row.asDict(recursive=True) for row in frame.select(*quoted).collect()]
        lists = pa.Table.from_pylist(rows, arrow_schema(frame.select(*quoted).schema))
        for name in untyped:
            table = table.append_column(lists.schema.field(name), lists.column(name))
    return table.select(frame.columns)


@needs_corpus
@pytest.mark.parametrize("ref", REFS, ids=str)
def test_every_version_converts_to_what_is_expected(ref: CorpusRef) -> None:
    expected = expected_rows(ref)
    left_out = refused(expected.schema)
    dataset = lancefs.open(ref.case.table(), ref=ref.ref)
    if left_out:
        with pytest.raises(UnsupportedFeature, match=rf"{left_out[0]} \(decimal256"):
            spark_schema(dataset.schema, "long")
        expected = expected.drop_columns(left_out)
    names = expected.column_names
    if not names:
        return
    scanner = dataset.scanner(names)
    target = arrow_schema(spark_schema(scanner.projected_schema, "long"))
    batches = [convert(batch, target, "long") for batch in scanner.to_batches()]
    table = pa.Table.from_batches(batches, target)
    table.validate(full=True)
    check(table, expected)


def long_decimals(directory: Path) -> str:
    values = [Decimal("12345678901234567890123456789012345678901.25"), None, Decimal("-0.5")]
    table = pa.table({"id": [0, 1, 2], "d": pa.array(values, pa.decimal256(60, 2))})
    table = table.append_column("s", pa.StructArray.from_arrays([table["d"].chunk(0)], ["d"]))
    lance.write_dataset(table, str(directory / "t.lance"), data_storage_version="2.1")
    return str(directory / "t.lance")


def test_decimals_of_many_digits_come_as_texts_or_not_at_all(spark: Any, tmp_path: Path) -> None:
    path = long_decimals(tmp_path)
    reader = spark.read.format("lancefs")
    with pytest.raises(Exception, match=r"Spark has no type for d .* unsupported = skip"):
        reader.load(path)
    assert reader.option("unsupported", "skip").load(path).columns == ["id"]
    texts = lancefs.spark.read(spark, path, unsupported="string")
    assert dict(texts.dtypes) == {"id": "bigint", "d": "string", "s": "struct<d:string>"}
    expected = ["12345678901234567890123456789012345678901.25", None, "-0.50"]
    rows = texts.orderBy("id").collect()
    assert [row.d for row in rows] == expected
    assert [row.s.d for row in rows] == expected
    options = {"unsupported": "string", "pushFilters": "true"}
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushing = spark.read.format("lancefs").options(**options).load(path)
        assert [row.id for row in pushing.where("d = '-0.50'").collect()] == [2]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_comparison_sees_a_difference() -> None:
    expected = pa.table({"a": pa.array([1, 2], pa.uint8())})
    check(pa.table({"a": pa.array([1, 2], pa.int16())}), expected)
    with pytest.raises(AssertionError):
        check(pa.table({"a": pa.array([1, 3], pa.int16())}), expected)


NANOSECONDS = pa.table(
    {
        "when": pa.array([1_000, None, 1_500], pa.timestamp("ns")),
        "id": pa.array([0, 1, 2], pa.int32()),
    }
)


def write(path: Path, rows: pa.Table) -> str:
    lance.write_dataset(rows, str(path), data_storage_version="2.1")
    return str(path)


def test_nanoseconds_are_kept_refused_or_cut_off(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", NANOSECONDS)
    reader = spark.read.format("lancefs")
    with pytest.raises(Exception, match=r"column when .timestamp\[ns\].: a value has nanoseconds"):
        reader.load(path).collect()
    kept = reader.option("nanoseconds", "long").load(path).toArrow()
    assert kept.column("when").to_pylist() == [1_000, None, 1_500]
    cut = reader.option("nanoseconds", "truncate").load(path).toArrow()
    assert cut.column("when").cast(pa.int64()).to_pylist() == [1, None, 1]


def test_whole_microseconds_need_no_option(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", NANOSECONDS.slice(0, 2))
    rows = spark.read.format("lancefs").load(path).collect()
    assert rows[0].when == datetime.datetime(1970, 1, 1, microsecond=1)


def test_times_of_day_are_compared_where_spark_is_told_to(spark: Any, tmp_path: Path) -> None:
    times = pa.array([1, 2, None], pa.time64("us"))
    path = write(tmp_path / "t.lance", pa.table({"id": [1, 2, 3], "at": times}))
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        frame = spark.read.format("lancefs").load(path).where("at > time'00:00:00.000001'")
        assert [row.id for row in frame.collect()] == [2]
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


def test_a_value_that_does_not_fit_is_an_error() -> None:
    far = pa.record_batch([pa.array([2**62], pa.timestamp("s"))], names=["when"])
    target = arrow_schema(spark_schema(far.schema))
    with pytest.raises(UnsupportedFeature, match=r"column when .timestamp\[s\].: .* does not fit"):
        convert(far, target, "error")
    odd = pa.record_batch([pa.array([1], pa.date64())], names=["day"])
    with pytest.raises(UnsupportedFeature, match="not a whole day"):
        convert(odd, arrow_schema(spark_schema(odd.schema)), "error")


def test_a_decimal_with_zeros_behind_is_kept() -> None:
    rows = pa.record_batch(
        [pa.array([None, 1200], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(17, -2))],
        names=["d"],
    )
    target = arrow_schema(spark_schema(rows.schema))
    assert target.field("d").type == pa.decimal128(19, 0)
    assert [v and int(v) for v in convert(rows, target, "error")["d"].to_pylist()] == [None, 1200]
