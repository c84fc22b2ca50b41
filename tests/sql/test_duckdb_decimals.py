"""Decimals of up to 18 digits reach DuckDB 2.0 in 64 bits; answers and types are as before."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import EACH_INTERFACE, HAS_EXTENSIONS, INTERFACES, connect, needs_install

import duckdb_adapter
import lancefs
from duckdb_adapter.sources.arrow_source import ArrowDataset
from duckdb_adapter.sources.rows import Rows

ROWS = 150_000
HAS_NARROW = hasattr(pa, "decimal64")
TYPES = {"price": (15, 2), "rate": (4, 3), "tax": (9, 2), "total": (18, 6), "large": (24, 4)}


def numbered(first: int, rows: int) -> pa.Table:
    """Return rows with decimals: plain numbers, few different ones, with nulls, and extremes."""
    source = np.random.default_rng(first)
    columns: dict[str, pa.Array] = {"id": pa.array(np.arange(first, first + rows))}
    for name, (digits, scale) in TYPES.items():
        most = min(10**digits - 1, 10**18 - 1)
        numbers = source.integers(-most, most, rows, endpoint=True)
        numbers[:2] = [most, -most]
        if name == "tax":
            numbers = source.choice(numbers[:9], rows)
        words = np.column_stack((numbers, numbers >> 63))
        missing = source.random(rows) < (0.2 if name in ("total", "tax") else 0)
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
        buffers = [valid, pa.py_buffer(words)]
        columns[name] = pa.Array.from_buffers(pa.decimal128(digits, scale), rows, buffers)
    members = [columns["price"], columns["id"]]
    columns["struct"] = pa.StructArray.from_arrays(members, names=["price", "id"])
    columns["list"] = pa.array([[Decimal("1.5")], None, []] * (rows // 3)).cast(
        pa.list_(pa.decimal128(15, 2))
    )
    return pa.table(columns)


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2", "many"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with deleted rows; one of fragments of 600 rows."""
    where = str(tmp_path_factory.mktemp("tables") / "t.lance")
    is_many = request.param == "many"
    version = "2.1" if is_many else request.param
    most = 600 if is_many else 120_000
    rows = numbered(0, ROWS)
    lance.write_dataset(rows, where, data_storage_version=version, max_rows_per_file=most)
    lance.dataset(where).delete("id % 10 = 3")
    return where


QUERIES = [
    "SELECT * FROM {t} ORDER BY id LIMIT 20",
    "SELECT * FROM {t} WHERE id = 77777",
    "SELECT sum(price), min(rate), max(tax), avg(total), sum(large), count(*) FROM {t}",
    "SELECT min(price), max(price), min(total), max(total), min(rate), max(rate) FROM {t}",
    "SELECT DISTINCT typeof(COLUMNS(*)) FROM {t}",
    "SELECT tax, count(*), sum(price - rate) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT sum(price), sum(tax) FROM {t} WHERE price > 100.25 AND tax < 0",
    "SELECT count(*), count(tax), count(total) FROM {t}",
    "SELECT count(*) FROM {t} WHERE tax IS NULL OR total > 12345.678901",
    "SELECT id FROM {t} WHERE price IN (9999999999999.99, -9999999999999.99)",
    "SELECT sum(total) FROM {t} WHERE total BETWEEN -1000000 AND 1000000 AND id % 2 = 0",
    "SELECT id, price FROM {t} WHERE price < -9999999000000 ORDER BY id",
    "SELECT id, price, tax FROM {t} ORDER BY price LIMIT 7",
    "SELECT id, total, list FROM {t} ORDER BY total DESC NULLS LAST LIMIT 7",
    "SELECT sum(struct.price), sum(price) FROM {t}",
    "SELECT sum(struct.price) FROM {t} WHERE price > 0 AND tax > 0",
    "SELECT count(struct.price), max(list[1]) FROM {t} WHERE rate > 0.5",
    "SELECT count(*) FROM {t} WHERE price > id",
    "SELECT count(*), sum(a.price) FROM {t} a JOIN {t} b USING (id, tax) WHERE b.rate < 0",
    "SELECT sum(price + large), sum(price::DOUBLE) > 0 FROM {t} WHERE id < 1000",
    "SELECT (SELECT sum(price) FROM {t}) - (SELECT sum(price) FROM {t} WHERE rate > 0)",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_decimals_of_128_bits(
    con: Any, native: Any, table: str, query: str
) -> None:
    found = con.sql(query.format(t=f"'{table}'"))
    expected = native.sql(query.format(t="native"))
    assert found.types == expected.types
    assert found.fetchall() == expected.fetchall()


@pytest.mark.skipif(not HAS_NARROW, reason="this pyarrow has no decimals of 64 bits")
def test_decimals_of_up_to_18_digits_come_in_64_bits(table: str) -> None:
    rows = Rows(lancefs.open(table))
    assert ArrowDataset(rows).schema.field("price").type == pa.decimal128(15, 2)
    narrow = rows.for_scan(needs_all=False)
    for columns in (["price", "rate", "tax"], ["struct", "total", "list", "large"]):
        with narrow.read(columns) as reader:
            found = reader.read_all()
        for field in found.schema:
            digits, scale = TYPES.get(field.name, (0, 0))
            is_narrow = pa.types.is_decimal64(field.type)
            assert is_narrow is (0 < digits <= 18)
            assert not is_narrow or field.type == pa.decimal64(digits, scale)
            assert narrow.filter_field(field.name).type == rows.schema.field(field.name).type
        found.validate(full=True)


@EACH_INTERFACE
def test_lance_scan_with_row_ids_gives_the_same(con: Any, table: str) -> None:
    call = f"lance_scan('{table}', with_row_id := true)"
    plain = lance.dataset(table).to_table(["price", "tax"], with_row_id=True)
    con.register("plain", plain)
    query = "SELECT sum(price), sum(tax), sum(_rowid) FROM {t} WHERE price > 5 OR tax = 0"
    assert con.sql(query.format(t=call)).fetchall() == con.sql(query.format(t="plain")).fetchall()


def write(path: Path, **columns: pa.Array) -> None:
    lance.write_dataset(pa.table(columns), str(path))


def test_several_tables_agree_on_one_type(con: Any, tmp_path: Path) -> None:
    one, two = Decimal("1.25"), Decimal("-2.5")
    write(tmp_path / "a.lance", x=pa.array([one, None], pa.decimal128(10, 2)))
    write(tmp_path / "b.lance", x=pa.array([two, one], pa.decimal128(10, 2)))
    write(tmp_path / "c.lance", x=pa.array([one * 10**20], pa.decimal128(30, 4)))
    write(tmp_path / "d.lance", y=pa.array([1, 2]))
    write(tmp_path / "e.lance", x=pa.array([7], pa.int8()))
    write(tmp_path / "f.lance", x=pa.array([one], pa.decimal128(20, 2)))

    def rows(names: str, options: str = "") -> list[tuple[Any, ...]]:
        paths = ", ".join(f"'{tmp_path}/{name}.lance'" for name in names)
        call = f"lance_scan([{paths}]{options})"
        columns = "x, typeof(x)"
        return con.sql(f"SELECT {columns} FROM {call}").fetchall()

    by_name = ", union_by_name := true"
    assert rows("ab") == [(n, "DECIMAL(10,2)") for n in (one, None, two, one)]
    assert rows("ac", by_name)[2] == (one * 10**20, "DECIMAL(30,4)")
    assert rows("ac", by_name)[0] == (one, "DECIMAL(30,4)")
    assert rows("ad", by_name) == [(n, "DECIMAL(10,2)") for n in (one, None, None, None)]
    assert rows("ae") == [(n, "DECIMAL(10,2)") for n in (one, None, Decimal(7))]
    assert rows("af") == [(n, "DECIMAL(10,2)") for n in (one, None, one)]
    call = f"lance_scan(['{tmp_path}/a.lance', '{tmp_path}/f.lance'])"
    assert con.sql(f"SELECT count(*) FROM {call} WHERE x > 1 AND x < 2").fetchall() == [(2,)]


@needs_install
@pytest.mark.skipif(not HAS_NARROW, reason="this pyarrow has no decimals of 64 bits")
def test_a_number_of_more_bits_is_an_error(tmp_path: Path) -> None:
    number = 123456789012345
    prices = [Decimal(n).scaleb(-2) for n in [*range(9_000), number]]
    lance.write_dataset(
        pa.table({"price": pa.array(prices, pa.decimal128(15, 2))}), str(tmp_path / "t.lance")
    )
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    data = file.read_bytes()
    damaged = data.replace(number.to_bytes(16, "little"), (number + 2**99).to_bytes(16, "little"))
    assert damaged != data
    file.write_bytes(damaged)
    with connect("install") as con, pytest.raises(Exception, match=f"{file.name}.*price.*64 bits"):
        con.sql(f"SELECT sum(price) FROM '{tmp_path}/t.lance'").fetchall()


@needs_install
def test_filters_on_decimals_are_left_to_the_scan(table: str) -> None:
    assert HAS_EXTENSIONS
    duckdb_adapter.install()
    with connect("shared") as con:
        ((_, plan),) = con.sql(
            f"EXPLAIN SELECT sum(tax) FROM '{table}' WHERE price > 5.25 AND tax < 1"
        ).fetchall()
    assert "FILTER" not in plan.upper().replace("FILTERS", "")
    assert "5.25" in plan


COARSE = (
    ("SELECT typeof(d), typeof(w) FROM {t} LIMIT 1", [("DECIMAL(11,0)", "VARCHAR")]),
    ("SELECT min(d), max(d), count(DISTINCT d) FROM {t}", [(-500_000, 499_900, 10_000)]),
    ("SELECT count(*) FROM {t} WHERE d BETWEEN 100 AND 350.5", [(30,)]),
    ("SELECT count(*) FROM {t} WHERE d IN (100, 150) OR s.d = -300", [(20,)]),
    ("SELECT d, l FROM {t} ORDER BY d DESC, id LIMIT 1", [(499_900, [499_900])]),
    ("SELECT d, count(*) FROM {t} GROUP BY d ORDER BY d LIMIT 1", [(-500_000, 10)]),
    ("SELECT w FROM {t} WHERE id = 0", [("-5" + "0" * 37,)]),
)


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with decimals of negative scale, also in lists and structs."""
    hundreds = pa.array(np.tile(np.arange(-5000, 5000), 10)).cast(pa.decimal128(19, 0))
    words = pa.py_buffer(hundreds.buffers()[1])
    d, w = (
        pa.Array.from_buffers(kind, len(hundreds), [None, words])
        for kind in (pa.decimal128(9, -2), pa.decimal128(38, -34))
    )
    one_each = np.arange(len(d) + 1, dtype="i4")
    rows = {
        "id": np.arange(len(d)),
        "d": d,
        "w": w,
        "l": pa.ListArray.from_arrays(one_each, d),
        "s": pa.StructArray.from_arrays([d], names=["d"]),
    }
    where = str(tmp_path_factory.mktemp("coarse") / "t.lance")
    lance.write_dataset(pa.table(rows), where, data_storage_version="2.1")
    return where


@pytest.mark.parametrize("road", INTERFACES)
@pytest.mark.parametrize(("query", "expected"), COARSE)
def test_decimals_of_negative_scale_have_their_zeros(
    coarse: str, road: str, query: str, expected: list[tuple[Any, ...]]
) -> None:
    with connect(road) as con:
        assert con.sql(query.format(t=f"'{coarse}'")).fetchall() == expected
