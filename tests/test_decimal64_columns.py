"""Decimals in 64 bits: the same numbers as in 128, or an error where a number takes more."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.errors import ColumnNotFound, CorruptFile
from lancefs.scan.morsels import decoded_bytes

pytestmark = pytest.mark.skipif(
    not hasattr(pa, "decimal64"), reason="this pyarrow has no decimals of 64 bits"
)

ROWS = 70_000
FORMATS = ["legacy", "2.0", "2.1", "2.2", "2.3"]
TYPES = {
    "price": (15, 2),
    "rate": (4, 3),
    "count": (9, 0),
    "some": (18, 6),
    "wide": (18, 18),
    "code": (12, 4),
    "code_some": (10, 1),
    "same": (15, 2),
    "same_some": (15, 2),
}


def decimals(numbers: np.ndarray[Any, Any], kind: pa.DataType, missing: Any = None) -> pa.Array:
    """Make decimals of unscaled numbers of 64 bits, with garbage below nulls."""
    words = np.column_stack((numbers, numbers >> 63)).astype("<i8")
    valid = None
    if missing is not None:
        words[missing] = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, (1, 2))
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(words), [valid, pa.py_buffer(words)])


def made(first: int, rows: int, version: str) -> pa.Table:
    """Return columns of plain numbers, dictionary items, constants, and ones with nulls."""
    source = np.random.default_rng(first)
    missing = source.random(rows) < 0.3 if version != "legacy" else None
    columns: dict[str, pa.Array] = {"id": pa.array(np.arange(first, first + rows))}
    for name, (digits, scale) in TYPES.items():
        most = 10**digits - 1
        numbers = source.integers(-most, most, rows, endpoint=True)
        numbers[:4] = [most, -most, 0, -1]
        if name.startswith("code"):
            numbers = source.choice(numbers[:20], rows)
        if name.startswith("same"):
            numbers[:] = -1234567
        kind = pa.decimal128(digits, scale)
        columns[name] = decimals(numbers, kind, missing if name.endswith("some") else None)
    if version != "legacy":
        columns["none"] = pa.nulls(rows, pa.decimal128(15, 2))
        member = pa.StructArray.from_arrays([columns["price"]], names=["price"])
        columns["struct"] = member
    columns["large"] = decimals(source.integers(-9, 9, rows), pa.decimal128(19, 2))
    return pa.table(columns)


@pytest.fixture(scope="module", params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of a long and two short fragments, with deleted rows and a column added later."""
    where, version = str(tmp_path_factory.mktemp("tables") / "t.lance"), request.param
    lance.write_dataset(made(0, ROWS, version), where, data_storage_version=version)
    lance.write_dataset(made(ROWS, 20_000, version), where, mode="append")
    lance.write_dataset(made(ROWS + 20_000, 300, version), where, mode="append")
    dataset = lance.dataset(where)
    dataset.delete("id % 10 = 3 or id < 2")
    if version != "legacy":
        dataset.add_columns(pa.field("later", pa.decimal128(18, 2)))
    return where


def names_of(dataset: Any) -> list[str]:
    return [name for name in (*TYPES, "none", "later") if name in dataset.schema.names]


def widened(table: pa.Table, names: list[str]) -> pa.Table:
    """Return a table whose decimals of 64 bits, which are checked for that, take 128."""
    table.validate(full=True)
    fields = []
    for field in table.schema:
        if field.name in names:
            kind = field.type
            assert kind.bit_width == 64, field
            field = field.with_type(pa.decimal128(kind.precision, kind.scale))
        fields.append(field)
    return table.cast(pa.schema(fields, table.schema.metadata))


def test_all_rows_are_those_of_pylance(path: str) -> None:
    dataset = lancefs.open(path)
    names = names_of(dataset)
    for size in (None, 1000, 33_000, 256 * 1024):
        scanner = dataset.scanner(decimal64_columns=names, batch_size=size)
        found = pa.Table.from_batches(scanner.to_batches(), scanner.projected_schema)
        assert widened(found, names) == lance.dataset(path).to_table()
    assert widened(dataset.to_table(decimal64_columns=names), names) == dataset.to_table()


CONDITIONS = [
    "price > 0",
    "price > 0 AND code < 100.5",
    "code = (SELECT)",
    "rate BETWEEN -0.5 AND 2.25 AND id % 3 = 1",
    "some IS NULL AND price < 1000000",
    "some IS NOT NULL AND code_some > 0.1",
    "some + some > 0",
    "price IN (9999999999999.99, -0.01)",
    "price < 1e30",
    "price > 100000000000000000000",
    "NOT price > 0 OR some < 0",
    "same_some = -12345.67",
    "id = 40001",
    "id BETWEEN 100 AND 60000",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_filters_find_the_same_rows(path: str, condition: str) -> None:
    dataset = lancefs.open(path)
    if "SELECT" in condition:  # one of the items of a dictionary
        code = dataset.to_table(["code"], limit=1)["code"][0].as_py()
        condition = f"code = {code}"
    names = names_of(dataset)
    for columns in (names, ["id", "price", "code"], ["id", *reversed(names)]):
        wanted = [name for name in columns if name in names]
        plain = dataset.to_table(columns, condition)
        found = dataset.to_table(columns, condition, decimal64_columns=names)
        assert widened(found, wanted) == plain
        batches = dataset.scanner(columns, condition, decimal64_columns=names).for_engine()
        found = pa.Table.from_batches(batches.to_batches(), batches.projected_schema)
        assert widened(found, wanted) == plain


def test_few_rows_are_the_same(path: str) -> None:
    dataset = lancefs.open(path)
    names = names_of(dataset)
    plain, narrow = dataset.scanner(names), dataset.scanner(names, decimal64_columns=names)
    wanted = [0, 6, 7, 39_000, 3, 62_345, 62_999, 80_000]
    assert widened(narrow.take(wanted), names) == plain.take(wanted)
    assert widened(narrow.head(9), names) == plain.head(9)
    assert widened(narrow.tail(500), names) == plain.tail(500)
    assert widened(narrow.sample(50, seed=3), names) == plain.sample(50, seed=3)
    options = {"limit": 30_000, "offset": 50_000}
    found = dataset.to_table(names, decimal64_columns=names, **options)
    assert widened(found, names) == dataset.to_table(names, **options)


@pytest.mark.parametrize("version", FORMATS)
def test_members_of_structs_come_in_64_bits(tmp_path: Path, version: str) -> None:
    where, rows = str(tmp_path / "t.lance"), 3_000
    lacks = np.arange(rows) % 5 == 1 if version != "legacy" else None
    price = decimals(np.arange(rows), pa.decimal128(12, 2), lacks)
    missing = {} if version == "2.0" else {"mask": pa.array(np.arange(rows) % 7 == 0)}
    at = pa.StructArray.from_arrays([price, pa.array(range(rows))], ["price", "n"], **missing)
    lance.write_dataset(
        pa.table({"at": at}), where, data_storage_version=version, max_rows_per_file=2_000
    )
    lance.dataset(where).delete("at.n % 10 = 4")
    dataset = lancefs.open(where)
    for filter in (None, "at.n % 100 < 3", "at.price > 20"):
        found = dataset.to_table(["at.price"], filter=filter, decimal64_columns=["at.price"])
        assert found.schema.types == [pa.decimal64(12, 2)]
        assert found.to_pydict() == dataset.to_table(["at.price"], filter=filter).to_pydict()


def test_other_columns_and_the_next_reader_are_as_before(path: str) -> None:
    dataset = lancefs.open(path)
    found = dataset.to_table(["large", "code", "price"], decimal64_columns=["price"])
    assert [field.type for field in found.schema] == [
        pa.decimal128(19, 2),
        pa.decimal128(12, 4),
        pa.decimal64(15, 2),
    ]
    assert dataset.to_table(["price"]) == lance.dataset(path).to_table(["price"])


def test_morsels_are_as_long_as_with_128_bits(path: str) -> None:
    dataset = lancefs.open(path)
    for columns in (["price"], ["code", "some"]):
        plain = dataset.scanner(columns)
        narrow = dataset.scanner(columns, decimal64_columns=columns)
        lengths = [[batch.num_rows for batch in each.to_batches()] for each in (plain, narrow)]
        assert lengths[0] == lengths[1]
    column = dataset.to_table(["price"], decimal64_columns=["price"])["price"].chunk(0)
    assert decoded_bytes({0: column}) == 16 * len(column)


def test_small_fragments_are_read_in_64_bits_too(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    rows = made(0, 30_000, "2.1")
    lance.write_dataset(rows, where, max_rows_per_file=300, data_storage_version="2.1")
    dataset = lancefs.open(where)
    found = dataset.to_table(decimal64_columns=names_of(dataset))
    assert widened(found, names_of(dataset)) == rows
    condition = pc.field("price") > Decimal(5)
    found = dataset.to_table(["code"], condition, decimal64_columns=["code"])
    assert widened(found, ["code"]) == rows.filter(condition).select(["code"])


@pytest.mark.parametrize("name", ["large", "id", "struct", "price.none"])
def test_columns_that_64_bits_do_not_hold_are_refused(tmp_path: Path, name: str) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(made(0, 10, "2.1"), where)
    with pytest.raises((ValueError, ColumnNotFound), match=name):
        lancefs.open(where).scanner(decimal64_columns=[name])
    with pytest.raises(TypeError, match="a list of names"):
        lancefs.open(where).scanner(decimal64_columns="price")


@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("rows", [100, 70_000])
@pytest.mark.parametrize("kind", ["plain", "dictionary", "constant"])
def test_a_number_of_more_bits_is_an_error(
    tmp_path: Path, version: str, rows: int, kind: str
) -> None:
    numbers = np.random.default_rng(1).integers(-(10**15), 10**15, rows)
    if kind != "plain":
        numbers = numbers[np.arange(rows) % (7 if kind == "dictionary" else 1)]
    damaged = 123456789012345
    numbers[rows // 2 if kind != "constant" else slice(None)] = damaged
    where = tmp_path / "t.lance"
    table = pa.table({"id": np.arange(rows), "price": decimals(numbers, pa.decimal128(15, 2))})
    lance.write_dataset(table, str(where), data_storage_version=version)
    pattern = damaged.to_bytes(16, "little")
    (file,) = (where / "data").iterdir()
    data = file.read_bytes()
    if pattern not in data:
        pytest.skip("the number is not stored as it is")
    file.write_bytes(data.replace(pattern, (damaged + (5 << 70)).to_bytes(16, "little")))
    dataset = lancefs.open(str(where))
    wide = dataset.to_table()["price"]
    if not any(one.as_py().copy_abs() > 10**16 for one in wide.unique()):
        pytest.skip("the number is stored elsewhere, too")
    message = f"{file.name}.*price.*{damaged + (5 << 70)} takes more than 64 bits"
    with pytest.raises(CorruptFile, match=message):
        dataset.to_table(decimal64_columns=["price"])
    with pytest.raises(CorruptFile, match=message):
        dataset.to_table(filter="price > 5", decimal64_columns=["price"])
    with pytest.raises(CorruptFile, match=message):
        dataset.scanner(decimal64_columns=["price"]).take([rows // 2])


def test_rows_that_an_index_names_come_in_64_bits(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    rows = made(0, 70_000, "2.1")
    lance.write_dataset(rows, where, data_storage_version="2.1")
    written = lance.dataset(where)
    written.create_scalar_index("price", "BTREE")
    dataset = lancefs.open(where)
    price = rows["price"][40_000].as_py()
    for condition in (f"price = {price}", f"price > {price}", f"price > {price} AND code > 0"):
        plain = dataset.to_table(["id", "price", "code"], condition, use_index=False)
        scanner = dataset.scanner(["id", "price", "code"], condition, decimal64_columns=["price"])
        assert "index" in scanner.explain()
        assert widened(scanner.to_table(), ["price"]) == plain
