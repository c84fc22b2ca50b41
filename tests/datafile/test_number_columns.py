"""Contiguous rows of columns of numbers, read by one call of a kernel for all of them."""

from __future__ import annotations

import itertools
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.datafile.v2_1 import cached_pages
from lancefs.datafile.v2_1.plain_columns import PlainColumns
from lancefs.datafile.v2_1.point_reader import PointReader
from lancefs.errors import CorruptFile
from lancefs.table.reader_cache import forget_cached

ROWS = 1_200_000  # whose pages of 64 bits are two
MONEY = pa.decimal128(15, 2)


def _pages_of(source: np.random.Generator, first: list[Any], second: list[Any]) -> list[Any]:
    """Return values of which the first half are others than the second."""
    halves = (source.choice(len(values), ROWS // 2) for values in (first, second))
    return [values[at] for values, half in zip((first, second), halves, strict=True) for at in half]


@pytest.fixture(scope="module")
def data() -> pa.Table:
    source = np.random.default_rng(7)
    zeros = [0.0, 1.5, float("nan"), -2.5], [-0.0, 1.5, float("inf"), 0.0, 7.25]
    cents = [Decimal(n).scaleb(-2) for n in range(50)], [Decimal(-n).scaleb(-2) for n in range(40)]
    prices = source.integers(-(10**14), 10**14, ROWS)
    missing = source.random(ROWS) < 0.1
    columns = {
        "zero": pa.array(_pages_of(source, *zeros), pa.float64()),
        "cent": pa.array(_pages_of(source, *cents), MONEY, mask=missing),
        "price": pa.array([Decimal(int(n)).scaleb(-2) for n in prices], MONEY),
        "status": pa.array(_pages_of(source, [200, 404, None], [200, 500, 503]), pa.int64()),
        "mode": pa.array(_pages_of(source, ["by air", "by rail"], ["by ship", "by air", None])),
        "flag": pa.array(source.random(ROWS) < 0.5, mask=missing),
        "row": pa.array(np.arange(ROWS)),
    }
    members, names = [columns[name] for name in ("status", "mode", "cent")], ["a", "b", "c"]
    columns["pair"] = pa.StructArray.from_arrays(members, names)
    columns["nulls"] = pa.StructArray.from_arrays(members, names, mask=pa.array(missing))
    return pa.table(columns)


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def path(
    data: pa.Table, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Path:
    path = tmp_path_factory.mktemp("numbers") / "t.lance"
    # Short batches, so that the writer makes several pages, in one file.
    batches = pa.RecordBatchReader.from_batches(data.schema, data.to_batches(64 * 1024))
    rows = 2 * ROWS
    lance.write_dataset(batches, path, data_storage_version=request.param, max_rows_per_file=rows)
    return path


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Assert that columns are the same to the bit: signs of zeros, and NaN."""
    assert found.num_rows == expected.num_rows
    assert found.schema.names == expected.schema.names
    found.validate(full=True)
    for name, column in zip(expected.schema.names, found.columns, strict=True):
        own = column.combine_chunks()
        own = own.dictionary_decode() if pa.types.is_dictionary(own.type) else own
        wanted = expected[name].combine_chunks()
        if pa.types.is_floating(wanted.type):
            own, wanted = own.view(pa.uint64()), wanted.view(pa.uint64())
        assert own.cast(wanted.type).equals(wanted), name


def test_all_columns_of_numbers_are_read_by_the_kernel(
    path: Path, data: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[list[str]] = []
    make = PlainColumns.__init__

    def noted(self: PlainColumns, *args: Any) -> None:
        make(self, *args)
        others.append([field.name for field in self.others])

    monkeypatch.setattr(PlainColumns, "__init__", noted)
    forget_cached(str(path))  # other tests may have read it
    scanner = lancefs.open(path).scanner(
        dictionary_columns=["mode"], decimal64_columns=["price", "cent"]
    )
    assert_same(scanner.to_table(), data)
    assert others
    # Version 2.1 stores these floats as runs, which a kernel of their own expands. Structs that are
    # null have levels of their own.
    assert {name for names in others for name in names} <= {"zero", "nulls"}


# The many rows lie in both pages.
@pytest.mark.parametrize(
    ("first", "count"),
    [*itertools.product((0, 3, 500_001), (1, 9000)), (500_001, 300_007)],
)
def test_contiguous_rows_of_numbers_are_those_that_were_written(
    path: Path, data: pa.Table, first: int, count: int
) -> None:
    dataset = lancefs.open(path)
    for dictionaries, narrow in (((), ()), (("mode",), ()), ((), ("cent", "price"))):
        scanner = dataset.scanner(
            offset=first, limit=count, dictionary_columns=dictionaries, decimal64_columns=narrow
        )
        assert_same(scanner.to_table(), data.slice(first, count))


@pytest.mark.parametrize("struct", ["pair", "nulls"])
def test_members_of_one_struct_are_columns_of_their_own(
    path: Path, data: pa.Table, struct: str
) -> None:
    names = [f"{struct}.c", "row", f"{struct}.a", f"{struct}.b"]
    found = lancefs.open(path).scanner(columns=names, offset=5, limit=70_000).to_table()
    members = data.slice(5, 70_000)[struct].combine_chunks().flatten()
    expected = dict(zip("abc", members, strict=True)) | {"row": data["row"].slice(5, 70_000)}
    assert_same(
        found, pa.table({name: expected[name[-1:] if "." in name else name] for name in names})
    )


@pytest.mark.parametrize(
    "filter",
    [
        pc.field("status") == 200,
        pc.field("status").isin([404, 503]),
        pc.field("zero") == 0.0,
        pc.field("cent") <= pc.scalar(Decimal("0.05")).cast(MONEY),
        (pc.field("mode") == "by air") & (pc.field("status") != 200),
        pc.field("row") >= ROWS - 70_000,
        (pc.field("zero") == -0.0) & pc.field("flag"),
    ],
    ids=str,
)
def test_rows_are_chosen_by_the_items_of_dictionaries(
    path: Path, data: pa.Table, filter: pc.Expression
) -> None:
    expected = data.filter(filter)
    for columns in (["zero"], ["cent", "price", "mode"], ["status", "row"], ["pair", "nulls"]):
        found = lancefs.open(path).to_table(columns=columns, filter=filter)
        assert_same(found, expected.select(columns))


def test_dictionaries_of_pages_that_were_read_are_forgotten(
    path: Path, data: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_pages, "_MAX_BYTES", 0)
    dataset = lancefs.open(path)
    for _ in range(2):
        batches = list(
            dataset.to_batches(batch_size=128 * 1024, columns=["zero", "cent", "status"])
        )
        assert_same(pa.Table.from_batches(batches), data.select(["zero", "cent", "status"]))


def test_a_damaged_dictionary_of_a_page_that_is_not_wanted_is_no_damage(
    path: Path, data: pa.Table, tmp_path: Path
) -> None:
    shutil.copytree(path, tmp_path / "t.lance")
    reader = lancefs.open(tmp_path / "t.lance").opened.readers[0]
    file, fields = reader.open_file(reader.fragment.files[0])
    assert isinstance(fields, PointReader)
    pages = fields.container.column(data.schema.get_field_index("mode")).pages
    assert len(pages) > 1
    start, end = pages[-1].buffers[2]
    with open(file.url, "r+b") as stored:
        stored.seek(start)
        stored.write(b"\xff" * (end - start))
    forget_cached(str(tmp_path / "t.lance"))
    dataset = lancefs.open(tmp_path / "t.lance")
    rows = data.slice(0, 2000)
    filter = pc.field("mode") == "by rail"
    found = dataset.scanner(columns=["row", "mode"], filter=filter, limit=500).to_table()
    assert_same(found, rows.filter(filter).select(["row", "mode"]).slice(0, 500))
    with pytest.raises(CorruptFile, match=r"\(mode\)"):
        dataset.to_table(columns=["mode"])
    with pytest.raises(CorruptFile, match=r"\(mode\)"):
        dataset.to_table(columns=["row"], filter=filter)


@pytest.mark.parametrize("different", [7, 10**17])
def test_decimals_with_anything_below_nulls_are_narrowed(tmp_path: Path, different: int) -> None:
    source = np.random.default_rng(1)
    words = source.integers(-different, different, 2 * 100_000)
    is_null = source.random(100_000) < 0.3
    words[1::2] = np.where(is_null, words[1::2], words[::2] >> 63)
    bits = np.packbits(~is_null, bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(words)]
    money = pa.Array.from_buffers(pa.decimal128(18, 2), 100_000, buffers)
    data = pa.table({"money": money})
    lance.write_dataset(data, tmp_path / "t.lance", data_storage_version="2.1")
    found = lancefs.open(tmp_path / "t.lance").scanner(decimal64_columns=["money"]).to_table()
    assert found["money"].cast(money.type).equals(data["money"])
