"""Filters in SQL text on columns of types that pylance or DuckDB lack."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from filter_rows import NAN, START

import lancefs
from lancefs.errors import InvalidFilter
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.sql_filter import parse_filter

KINDS = pa.table(
    {
        "half": pa.array([0.1, None, NAN, -0.0], pa.float16()),
        "halves": pa.array([[0.1, 2.0], None, [NAN], []], pa.list_(pa.float16())),
        "kind": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "big_text": pa.array(["a", None, "c", "A"], pa.large_string()),
        "day64": pa.array(
            [date(2026, 1, 1), None, date(1969, 12, 31), date(2026, 1, 2)], pa.date64()
        ),
        "nano": pa.array([1_767_225_600_000_000_001, None, 0, -1], pa.timestamp("ns")),
        "zoned": pa.array(
            [START, None, START - timedelta(hours=1), START], pa.timestamp("ms", "Asia/Tokyo")
        ),
        "clock": pa.array([time(1), None, time(2), time(3)], pa.time32("s")),
        "span": pa.array(
            [timedelta(seconds=1), None, timedelta(0), timedelta(1)], pa.duration("s")
        ),
        "uuid": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([b"a" * 16, None, b"b" * 16, b"c" * 16], pa.binary(16))
        ),
        "code": pa.array([b"ab", None, b"ac", b"zz"], pa.binary(2)),
        "codes": pa.array([[b"ab"], None, [b"ac", None], []], pa.list_(pa.binary(2))),
        "bytes": pa.array([b"ab", None, b"ac", b"z"], pa.large_binary()),
        "deep": pa.array([Decimal("1.5"), None, Decimal(2), Decimal(0)], pa.decimal256(60, 10)),
        "texts": pa.array([["a"], None, ["b", None], []], pa.large_list(pa.large_string())),
        "strict": pa.array(
            [["a"], ["b"], [], ["c"]], pa.list_(pa.field("item", pa.string(), nullable=False))
        ),
        "pairs": pa.array([[{"a": 1}], None, [], []], pa.list_(pa.struct([("a", pa.int8())]))),
        "days": pa.array([[date(2026, 1, 1)], None, [], [None]], pa.list_(pa.date32())),
        "sums": pa.array([[Decimal("1.5")], None, [], [None]], pa.list_(pa.decimal128(5, 1))),
        "row": pa.array(range(4)),
    }
)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    path = tmp_path_factory.mktemp("kinds") / "t.lance"
    lance.write_dataset(KINDS, path, data_storage_version="2.1")
    return lancefs.open(str(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("half = 0.1", [0]),
        ("half > 0.1", [2]),
        ("half in (0.1, 0)", [0, 3]),
        ("half = 0", [3]),
        ("half is null", [1]),
        ("half + 1 > 1", [0, 2]),
        ("half < row", [3]),
        ("array_has(halves, 0.1)", [0]),
        ("array_has(halves, cast('nan' as real))", [2]),
        ("kind = 'a'", [0, 3]),
        ("kind in ('a', 'z')", [0, 3]),
        ("kind not in ('a', 'z')", [1]),
        ("kind like 'a%' and row > 0", [3]),
        ("upper(kind) = 'A'", [0, 3]),
        ("kind = big_text", [0]),
        ("coalesce(kind, big_text) = 'c'", [2]),
        ("kind is null", [2]),
        ("big_text ilike 'a'", [0, 3]),
        ("day64 = '2026-01-02'", [3]),
        ("day64 < timestamp '1969-12-31 12:00:00'", [2]),
        ("day64 = cast(nano as date)", [0]),
        ("nano = timestamp(9) '2026-01-01 00:00:00.000000001'", [0]),
        ("nano = '2026-01-01 00:00:00.000000001'", [0]),
        ("nano > timestamp '2026-01-01 00:00:00.000000999'", [0]),  # of microseconds
        ("nano > '2026-01-01'", [0]),
        ("nano < '1970-01-01'", [3]),
        ("cast(nano as timestamp(6)) = '2026-01-01'", [0]),
        ("zoned = timestamp '2026-01-01'", [0, 3]),
        ("cast(zoned as date) = date '2025-12-31'", [2]),
        ("zoned in ('2026-01-01T09:00:00+09:00')", [0, 3]),
        ("clock > time '01:30:00'", [2, 3]),
        ("clock in ('02:00:00', '02:00:00.5')", [2]),
        ("cast(span as bigint) > 0", [0, 3]),
        ("span = span", [0, 2, 3]),
        ("uuid = X'61616161616161616161616161616161'", [0]),
        ("uuid > X'61'", [0, 2, 3]),
        ("uuid = '62626262-6262-6262-6262-626262626262'", [2]),
        ("uuid in ('62626262-6262-6262-6262-626262626262', 'none')", [2]),
        ("uuid > '61616161-6161-6161-6161-61616161616A'", [2, 3]),
        ("uuid != '61616161-6161-6161-6161-616161616161'", [2, 3]),
        ("code = 'ab'", [0]),
        ("code > X'616200'", [2, 3]),
        ("code in ('ab', 'abc')", [0]),
        ("code = bytes", [0, 2]),
        ("deep = 1.5", [0]),
        ("deep > 1.50000000005", [2]),
        ("deep * deep = 2.25", None),
        ("deep + 1 = 3", [2]),
        ("array_has(texts, 'b')", [2]),
        ("array_has(strict, 'b')", [1]),
        ("array_has(strict, kind)", [0, 1]),
        ("array_has(days, '2026-01-01')", [0]),
        ("array_has(sums, 1.5)", [0]),
        ("array_has(codes, X'ff')", []),
        ("not array_has_any(codes, ['ab', X'ff'])", [2, 3]),
        ("not array_has(sums, 1.55)", [0, 2, 3]),
        ("pairs is null", [1]),
        ("array_length(pairs) = 1", [0]),
    ],
)
def test_types_that_pylance_or_duckdb_lack(
    kinds: LanceDataset, text: str, expected: list[int] | None
) -> None:
    if expected is None:
        with pytest.raises(InvalidFilter, match="too wide for a decimal"):
            parse_filter(text, kinds.manifest.fields)
        return
    filter = parse_filter(text, kinds.manifest.fields)
    assert kinds.to_table(columns=["row"], filter=filter)["row"].to_pylist() == expected


@pytest.mark.skipif(not hasattr(pa, "json_"), reason="pyarrow 18 has no type for JSON")
def test_json_is_compared_as_text(tmp_path: Path) -> None:
    rows = pa.table({"doc": pa.array(['{"a":1}', "2", None], pa.json_()), "row": range(3)})
    lance.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.2")
    table = lancefs.open(str(tmp_path / "t.lance"))
    for text, expected in (("doc = '2'", [1]), ("doc like '%a%'", [0]), ("doc is null", [2])):
        filter = parse_filter(text, table.manifest.fields)
        assert table.to_table(columns=["row"], filter=filter)["row"].to_pylist() == expected


@pytest.mark.parametrize("name", ["kind", "note"])
def test_dictionary_encoded_columns_are_filtered(tmp_path: Path, name: str) -> None:
    texts = [["Gent", "Lyon", None][i % 3] for i in range(60)]
    rows = pa.table({"kind": pa.array(texts).dictionary_encode(), "note": texts, "id": range(60)})
    lance.write_dataset(rows, tmp_path / "t.lance")
    table = lancefs.open(str(tmp_path / "t.lance"))
    encoded = [] if name == "kind" else [name]
    for text in (f"{name} = 'Gent'", f"{name} like 'G%'", f"{name} like 'G%' and id < 9"):
        filter = parse_filter(text, table.manifest.fields)
        scan = table.scanner(columns=["id", name], filter=filter, dictionary_columns=encoded)
        most = 9 if "id" in text else 60
        assert scan.to_table()["id"].to_pylist() == list(range(0, most, 3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seconds = micros", [1]),
        ("seconds < micros", [0, 2]),
        ("seconds = '2026-01-01 00:00:00.5'", []),
        ("seconds < timestamp '2026-01-01 00:00:00.5'", [0, 1, 2]),
        ("seconds not in ('2026-01-01 00:00:00.5')", [0, 1, 2]),
        ("cast(micros as timestamp(0)) = timestamp '2026-01-01'", [0, 1]),
        ("cast(price as int) = 1", [1, 2]),
        ("cast(price as int) > 1", []),
        ("cast(price as decimal(5, 1)) in (1.8, -1.3)", [0, 2]),
    ],
)
def test_values_are_compared_exactly_where_pylance_drops_digits(
    tmp_path: Path, text: str, expected: list[int]
) -> None:
    new_year = datetime(2026, 1, 1)
    micros = [new_year + timedelta(microseconds=5), new_year, new_year + timedelta(days=1)]
    rows = pa.table(
        {
            "row": range(3),
            "seconds": pa.array([new_year] * 3, pa.timestamp("s")),
            "micros": pa.array(micros, pa.timestamp("us")),
            "price": pa.array([Decimal("-1.25"), Decimal("1.00"), Decimal("1.75")]),
        }
    )
    lance.write_dataset(rows, tmp_path / "t.lance")
    table = lancefs.open(tmp_path / "t.lance")
    assert table.to_table(columns=["row"], filter=text)["row"].to_pylist() == expected
