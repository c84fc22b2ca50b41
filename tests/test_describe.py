"""`dataset.describe()` tells of values what NumPy, pandas and DuckDB tell of them."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.errors import ColumnNotFound, CorruptFile
from lancefs.profile import describing
from lancefs.profile.accumulators import Moments, RowSample
from lancefs.profile.column_pass import ColumnPass
from lancefs.profile.distinct import KEPT, DistinctCount, Hasher
from lancefs.profile.kinds import plain_type
from lancefs.profile.profiles import ColumnProfile, Spread

ORDERS = "examples/data/orders.lance"
ROWS = 3000


def _written(path: Path, table: pa.Table, **options: Any) -> lancefs.LanceDataset:
    lance.write_dataset(table, path, **options)
    return lancefs.open(path)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Columns of many types, with missing values in some."""
    rng = np.random.default_rng(3)
    missing = rng.random(ROWS) < 0.1
    start = np.datetime64("2026-01-01", "us")
    return pa.table(
        {
            "i8": pa.array(rng.integers(-100, 100, ROWS), pa.int8()),
            "u64": pa.array(rng.integers(2**60, 2**64, ROWS, np.uint64), mask=missing),
            "f32": pa.array(rng.normal(size=ROWS).astype("f4")),
            "f64": pa.array(rng.gamma(2, 20, ROWS), mask=missing),
            "half": pa.array(rng.normal(size=ROWS).astype("f2")),
            "flag": pa.array(rng.random(ROWS) < 0.3, mask=missing),
            "day": pa.array(rng.integers(18_000, 20_000, ROWS).astype("i4")).cast(pa.date32()),
            "at": pa.array(start + rng.integers(0, 10**12, ROWS), pa.timestamp("us", "UTC")),
            "ns": pa.array(rng.integers(0, 10**18, ROWS)).cast(pa.timestamp("ns")),
            "lasts": pa.array(rng.integers(0, 10**6, ROWS)).cast(pa.duration("ms")),
            "price": pa.array([Decimal(int(x)) / 100 for x in rng.integers(0, 9999, ROWS)]),
            "city": pa.array(rng.choice(["Gent", "Graz", "Łódź"], ROWS, p=[0.7, 0.2, 0.1])),
            "note": pa.array([f"note {i}" for i in range(ROWS)], mask=missing),
            "raw": pa.array([bytes([i % 7]) * (i % 5) for i in range(ROWS)]),
            "code": pa.array([uuid.UUID(int=i % 50).bytes for i in range(ROWS)], pa.binary(16)),
            "words": pa.array([None if i % 9 == 0 else ["w"] * (i % 4) for i in range(ROWS)]),
            "vector": pa.array(
                rng.normal(size=(ROWS, 8)).astype("f4").tolist(), pa.list_(pa.float32(), 8)
            ),
            "st": pa.array(
                [None if i % 10 == 0 else {"x": i, "in": {"y": f"{i % 3}"}} for i in range(ROWS)]
            ),
            "dict": pa.array(["a", "b", None] * (ROWS // 3)).dictionary_encode(),
        }
    )


@pytest.fixture(scope="module")
def dataset(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> lancefs.LanceDataset:
    path = tmp_path_factory.mktemp("describe") / "t.lance"
    return _written(path, table, max_rows_per_file=700, data_storage_version="2.1")


@pytest.fixture(scope="module")
def columns(dataset: lancefs.LanceDataset) -> dict[str, ColumnProfile]:
    return dict(dataset.describe().columns)


def test_each_column_and_each_member_of_a_struct_is_described(
    dataset: lancefs.LanceDataset, columns: dict[str, ColumnProfile]
) -> None:
    names = dataset.schema.names
    position = names.index("st") + 1
    assert list(columns) == [*names[:position], "st.x", "st.in", "st.in.y", *names[position:]]
    assert all(column.rows == ROWS for column in columns.values())
    assert dataset.describe().rows == dataset.describe().total == ROWS


def test_nulls_and_different_values_are_counted(
    table: pa.Table, columns: dict[str, ColumnProfile]
) -> None:
    for name in table.column_names:
        assert columns[name].nulls == table[name].null_count, name
        if name in ("words", "vector", "st"):
            assert columns[name].distinct is None
            continue
        values = table[name].combine_chunks()
        values = values.dictionary_decode() if name == "dict" else values
        expected = len(
            set(values.drop_null().to_pylist())
            if name != "ns"
            else set(values.cast(pa.int64()).to_pylist())
        )
        assert (columns[name].distinct, columns[name].is_distinct_exact) == (expected, True), name
    assert columns["st.x"].nulls == columns["st.in.y"].nulls == columns["st"].nulls == ROWS // 10
    assert columns["st.in.y"].distinct == 3


NUMBERS = ["i8", "u64", "f32", "f64", "half", "price"]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_the_moments_and_quantiles_that_numpy_finds(
    table: pa.Table, columns: dict[str, ColumnProfile], name: str
) -> None:
    values = table[name].drop_null()
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    column = columns[name]
    spread = column.values
    assert spread is not None
    assert (column.min, column.max) == (spread.min, spread.max)
    least, greatest = min(values.to_pylist()), max(values.to_pylist())
    assert (spread.min, spread.max) == (least, greatest)
    assert spread.mean == pytest.approx(numbers.mean(), rel=1e-12)
    assert spread.deviation == pytest.approx(numbers.std(ddof=1), rel=1e-9)
    shares = list(spread.quantiles)
    expected = np.quantile(numbers, shares, method="inverted_cdf")
    assert [*map(float, spread.quantiles.values())] == pytest.approx(expected.tolist(), rel=1e-12)
    assert spread.histogram is not None
    counts, edges = np.histogram(numbers, 20)
    assert spread.histogram.shares == tuple((counts / len(numbers)).tolist())
    assert spread.histogram.edges == pytest.approx(edges.tolist())
    assert spread.is_exact


def test_times_are_described_as_times(table: pa.Table, columns: dict[str, ColumnProfile]) -> None:
    for name in ("day", "at", "lasts"):
        spread = columns[name].values
        assert spread is not None
        values = sorted(table[name].to_pylist())
        assert (spread.min, spread.max) == (values[0], values[-1])
        assert spread.quantiles[0.5] == values[math.ceil(ROWS / 2) - 1]
        mean = pd.Series(table[name].to_numpy()).mean()
        zone = table[name].type.tz if name == "at" else None
        found = pd.Timestamp(spread.mean) if name != "lasts" else pd.Timedelta(spread.mean)
        expected = mean.tz_localize(zone) if zone else mean
        assert abs(found - expected) <= pd.Timedelta("1D" if name == "day" else "1ms")
        assert spread.deviation is None
        assert spread.histogram is not None
        assert (spread.histogram.edges[0], spread.histogram.edges[-1]) == (values[0], values[-1])
    assert str(columns["ns"].min) == str(table["ns"].combine_chunks().sort()[0].cast(pa.string()))


def test_the_most_frequent_values_have_their_shares(columns: dict[str, ColumnProfile]) -> None:
    top = columns["city"].top
    assert [one.value for one in top] == ["Gent", "Graz", "Łódź"]
    assert sum(one.count for one in top) == ROWS
    assert top[0].share == top[0].count / ROWS == pytest.approx(0.7, abs=0.05)
    assert columns["city"].are_top_exact
    assert {one.value for one in columns["flag"].top} == {True, False}
    assert columns["dict"].top[0].share == pytest.approx(1 / 3)
    assert len(columns["note"].top) == 10


def test_texts_bytes_lists_and_vectors_have_lengths_and_norms(
    table: pa.Table, columns: dict[str, ColumnProfile]
) -> None:
    lengths = {
        "city": pc.utf8_length(table["city"]),
        "note": pc.utf8_length(table["note"]),
        "raw": pc.binary_length(table["raw"]),
        "words": pc.list_value_length(table["words"]),
    }
    for name, expected in lengths.items():
        spread = columns[name].lengths
        assert spread is not None
        numbers = expected.drop_null().to_numpy()
        assert (spread.min, spread.max) == (numbers.min(), numbers.max())
        assert spread.mean == pytest.approx(numbers.mean())
    vectors = np.array(table["vector"].to_pylist())
    norms = columns["vector"].norms
    assert norms is not None
    assert norms.mean == pytest.approx(np.linalg.norm(vectors, axis=1).mean(), rel=1e-6)
    assert columns["vector"].values is None
    assert columns["code"].lengths is None


def test_it_agrees_with_what_duckdb_summarizes(dataset: lancefs.LanceDataset) -> None:
    rows = dataset.to_table(["i8", "f64", "day", "price", "city", "note"])
    found = dataset.describe(rows.column_names).columns
    assert list(found) == rows.column_names
    summary = duckdb.sql("SUMMARIZE rows").fetchall()
    for name, kind, least, greatest, _, mean, deviation, *_, count, nulls in summary:
        column = found[name]
        assert column.rows == count
        assert column.null_share * 100 == pytest.approx(float(nulls), abs=0.01)
        if column.values is not None and kind != "DATE":
            assert float(column.min) == pytest.approx(float(least))
            assert float(column.max) == pytest.approx(float(greatest))
            assert column.values.mean == pytest.approx(float(mean))
            assert column.values.deviation == pytest.approx(float(deviation))
        else:
            assert (str(column.min), str(column.max)) == (least, greatest)


def test_columns_and_rows_can_be_chosen(dataset: lancefs.LanceDataset) -> None:
    found = dataset.describe(["st.x"], filter="st.x >= 100 and st.x < 200")
    column = found.columns["st.x"]
    assert (column.rows, column.min, column.max) == (90, 101, 199)
    assert dataset.filter("i8 > 0").describe(["i8"]).columns["i8"].min == 1
    with pytest.raises(ColumnNotFound, match="did you mean city"):
        dataset.describe(["cty"])


def test_a_sample_of_the_rows_is_enough(dataset: lancefs.LanceDataset) -> None:
    found = dataset.describe(sample=500, seed=1)
    assert (found.rows, found.total) == (500, ROWS)
    assert found.columns["i8"].rows == 500
    assert found == dataset.describe(sample=500, seed=1)
    assert found != dataset.describe(sample=500, seed=2)
    values = dataset.sample(500, seed=1)["f32"]
    assert found.columns["f32"].max == pc.max(values).as_py()
    assert dataset.describe(["i8"], sample=9999).rows == ROWS


def test_the_same_version_has_the_same_profile(dataset: lancefs.LanceDataset) -> None:
    assert dataset.describe() == dataset.describe()


def test_progress_is_told(dataset: lancefs.LanceDataset) -> None:
    told: list[int] = []
    dataset.describe(["i8"], on_rows=told.append)
    assert sum(told) == ROWS


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2", "2.3"])
def test_every_format_is_described(tmp_path: Path, version: str) -> None:
    rows = pa.table({"a": [1, 2, None], "s": ["x", "y", "x"]})
    found = _written(tmp_path / "t.lance", rows, data_storage_version=version).describe()
    assert found.columns["s"].top[0].value == "x"
    assert found.columns["a"].rows == 3


def test_a_table_without_rows_is_described(tmp_path: Path) -> None:
    empty = pa.table({"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())})
    found = _written(tmp_path / "t.lance", empty).describe()
    assert (found.rows, list(found.columns)) == (0, ["a", "s"])
    column = found.columns["a"]
    assert (column.distinct, column.values, column.top, column.null_share) == (0, None, (), 0.0)


def test_columns_of_nothing_but_nulls_nan_or_infinity_are_described(tmp_path: Path) -> None:
    nan, inf = math.nan, math.inf
    rows = pa.table(
        {
            "null": pa.nulls(4),
            "none": pa.array([None] * 4, pa.int32()),
            "nan": pa.array([nan] * 4),
            "some": pa.array([nan, None, 2.0, -1.0]),
            "inf": pa.array([inf, -inf, inf, inf]),
            "big": pa.array([1.0, inf, 3.0, None]),
        }
    )
    found = _written(tmp_path / "t.lance", rows, data_storage_version="2.1").describe().columns
    assert found["null"].nulls == found["none"].nulls == 4
    assert (found["nan"].nans, found["nan"].nulls, found["nan"].distinct) == (4, 0, 1)
    assert (found["some"].nans, found["some"].min, found["some"].max) == (1, -1.0, 2.0)
    assert found["some"].values is not None
    assert found["some"].values.mean == 0.5
    assert found["inf"].values is not None
    assert found["inf"].values.histogram is None
    assert found["inf"].values.deviation is None
    assert found["big"].max == inf
    assert found["big"].values is not None
    assert found["big"].values.histogram is not None
    assert found["big"].values.histogram.edges[-1] == 3.0


def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path) -> None:
    _written(tmp_path / "t.lance", pa.table({"a": range(50_000)}))
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptFile):
        lancefs.open(tmp_path / "t.lance").describe()


def test_results_can_be_printed_and_tabled(dataset: lancefs.LanceDataset) -> None:
    found = dataset.describe(["i8", "city"])
    expected = "3,000 rows, 2 columns; to_table() has a row for each column>"
    assert repr(found).endswith(expected)
    table = found.to_table()
    assert table["column"].to_pylist() == ["i8", "city"]
    assert table["top"][1].as_py() == "Gent"
    assert set(table["spread"][0].as_py()) <= set(" ▁▂▃▄▅▆▇█")
    page = dataset.describe(["city"])._repr_html_()
    assert ">Gent</td>" in page
    said = found.to_dict()["columns"][1]
    assert said["top"][0] == {
        "value": "Gent",
        "count": found.columns["city"].top[0].count,
        "share": found.columns["city"].top[0].share,
    }


# Beyond what is kept whole


def test_quantiles_of_many_rows_are_those_of_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describing, "SAMPLE_ROWS", 4096)
    rng = np.random.default_rng(5)
    numbers, words = rng.gamma(2, 20, 60_000), rng.zipf(1.4, 60_000)
    rows = pa.table({"x": numbers, "w": [f"w{word}" for word in words]})
    found = _written(tmp_path / "t.lance", rows, max_rows_per_file=7000).describe().columns
    spread = found["x"].values
    assert spread is not None
    assert not spread.is_exact
    assert spread.mean == pytest.approx(numbers.mean())
    assert (spread.min, spread.max) == (numbers.min(), numbers.max())
    for share, value in spread.quantiles.items():  # five deviations of what a sample is off
        assert abs((numbers <= value).mean() - share) < 5 * math.sqrt(share * (1 - share) / 4096)
    assert spread.histogram is not None
    expected = np.histogram(numbers, 20)[0] / len(numbers)
    assert np.abs(np.array(spread.histogram.shares) - expected).max() < 0.04
    top = found["w"].top[0]
    assert top.value == "w1"
    assert top.share == pytest.approx((words == 1).mean(), abs=0.04)


def test_many_different_values_are_counted_about(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    numbers = rng.integers(0, 200_000, 300_000)
    rows = pa.table({"n": numbers, "s": pa.array(numbers).cast(pa.string())})
    found = _written(tmp_path / "t.lance", rows).describe().columns
    expected = len(np.unique(numbers))
    for column in found.values():
        assert not column.is_distinct_exact
        assert not column.are_top_exact
        assert column.distinct == pytest.approx(expected, rel=5 / math.sqrt(KEPT))


def test_no_more_different_values_are_counted_than_there_are_rows(tmp_path: Path) -> None:
    rows = pa.table({"n": np.arange(300_000)})  # of which hashes tell that they are 300,702
    column = _written(tmp_path / "t.lance", rows).describe().columns["n"]
    assert (column.distinct, column.is_distinct_exact) == (300_000, False)


def test_a_frequent_value_among_many_different_ones_is_found(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(40_000)]
    texts[::5] = ["often"] * 8000
    found = _written(tmp_path / "t.lance", pa.table({"s": texts})).describe().columns["s"]
    assert [one.value for one in found.top] == ["often"]
    assert found.top[0].share == pytest.approx(0.2)
    assert not found.are_top_exact


def test_a_sample_keeps_to_its_rows_and_bytes() -> None:
    rng = np.random.default_rng(0)
    sample = RowSample(1000, 50_000)
    for start in range(0, 100_000, 5000):
        values = pa.array([f"{i:06}" * (1 + i % 20) for i in range(start, start + 5000)])
        sample.add(values, rng.random(5000))
    kept = sample.values()
    assert kept is not None
    assert 300 < len(kept) <= 1000
    assert kept.nbytes <= 50_000
    assert not sample.is_whole
    places = np.array([int(text[:6]) for text in kept.to_pylist()])
    assert np.all(np.diff(places) > 0)
    assert abs(places.mean() - 50_000) < 5 * 100_000 / math.sqrt(12 * len(places))


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(0, 30_000), min_size=1, max_size=6), seed=st.integers(0, 9))
def test_different_hashes_are_counted_exactly_while_they_are_few(
    sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    count, every = DistinctCount(), [rng.integers(0, 2**64, size, np.uint64) for size in sizes]
    for hashes in every:
        count.add(np.concatenate([hashes, hashes[:100]]))
    expected = len(np.unique(np.concatenate(every)))
    found, is_exact = count.count()
    assert is_exact == (expected < KEPT)
    assert found == expected if is_exact else abs(found / expected - 1) < 6 / math.sqrt(KEPT)


VALUES = {
    pa.int16(): st.integers(-100, 100),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    pa.timestamp("ms"): st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
    pa.decimal128(9, 2): st.decimals(-9999, 9999, places=2),
    pa.decimal256(50, 2): st.decimals(-9999, 9999, places=2),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.list_(pa.int8()): st.lists(st.integers(0, 9), max_size=3),
    pa.map_(pa.string(), pa.int8()): st.lists(st.tuples(st.text(max_size=2), st.integers(0, 9))),
    pa.list_(pa.float32(), 2): st.lists(st.floats(width=32), min_size=2, max_size=2),
}


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@settings(
    max_examples=examples(20),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_values_in_any_batches_are_described(
    data: st.DataObject, data_type: pa.DataType
) -> None:
    batches = data.draw(st.lists(st.lists(st.none() | VALUES[data_type], max_size=30), max_size=4))
    column = ColumnPass("c", str(data_type), plain_type(data_type), 1000, 10**6)
    hasher, rng = Hasher(), np.random.default_rng(0)
    for values in batches:
        array = pa.array(values, data_type)
        stored = column.add(array, rng.random(len(array)))
        if stored is not None:
            column.add_hashes(*hasher.hashes([stored]))
    hasher.close()
    every = [value for values in batches for value in values]
    present = [value for value in every if value is not None]
    found = column.profile()
    assert (found.rows, found.nulls) == (len(every), len(every) - len(present))
    known = pa.array(present, data_type).to_pylist()
    if found.distinct is not None:
        different = {"nan" if value != value else value for value in known}
        assert found.distinct == len(different)
        assert sum(one.count for one in found.top) <= len(present)
    for spread in (found.values, found.lengths, found.norms):
        assert spread is None or _is_sound(spread)


def _is_sound(spread: Spread) -> bool:
    values = [spread.min, *spread.quantiles.values(), spread.max]
    shares = spread.histogram.shares if spread.histogram else ()
    return values == sorted(values) and sum(shares) <= 1 + 1e-9


def _profile_of(path: Path, column: pa.Array) -> ColumnProfile:
    return _written(path / "one.lance", pa.table({"c": column})).describe().columns["c"]


def test_decimals_next_to_zero_and_of_negative_scale_are_told_apart(tmp_path: Path) -> None:
    values = [Decimal(-1), Decimal(0), Decimal(-1), Decimal(5)]
    wide = _profile_of(tmp_path / "wide", pa.array(values, pa.decimal128(20, 0)))
    assert (wide.distinct, wide.is_distinct_exact) == (3, True)
    coarse = pa.array([Decimal(100), None, Decimal(-300)], pa.decimal128(9, -2))
    profile = _profile_of(tmp_path / "coarse", coarse)
    assert (profile.distinct, profile.min, profile.max) == (2, Decimal(-300), Decimal(100))


@pytest.mark.filterwarnings("error")
def test_the_last_times_of_all_have_a_mean_and_a_histogram(tmp_path: Path) -> None:
    last = 2**63 - 1  # as a float beyond 64 bits
    times = pa.array([last, last]).cast(pa.timestamp("ns"))
    spread = _profile_of(tmp_path / "same", times).values
    assert spread is not None
    assert spread.mean == spread.max == "2262-04-11 23:47:16.854775807"
    both = _profile_of(tmp_path / "both", pa.array([-last, 0, last]).cast(pa.timestamp("ns")))
    assert both.values is not None
    assert both.values.histogram is not None
    edges = both.values.histogram.edges
    assert (edges[0], edges[-1]) == (both.min, both.max)


def test_zeros_of_both_signs_are_one_value(tmp_path: Path) -> None:
    profile = _profile_of(tmp_path, pa.array([0.0, -0.0, 0.0, 1.0]))
    assert [(one.value, one.count) for one in profile.top] == [(0.0, 3), (1.0, 1)]
    assert profile.distinct == 2


@pytest.mark.parametrize(
    ("infinities", "mean"), [([math.inf], math.inf), ([math.inf, -math.inf], None)]
)
def test_the_mean_of_infinities_does_not_depend_on_batches(
    infinities: list[float], mean: float | None
) -> None:
    moments = Moments()
    for value in (1.0, *infinities, 2.0):
        moments.add(pa.array([value]))
    assert (moments.mean, moments.deviation) == (mean, None)


def test_a_profile_at_a_prompt_says_how_to_look_at_it() -> None:
    profile = lancefs.open(ORDERS).describe(["city"])
    expected = "orders.lance@4: 1,191 rows, 1 column; to_table() has a row for each column>"
    assert repr(profile).endswith(expected)
    assert profile.to_table().num_rows == 1
    assert "1,191 rows, 1 column&gt;</div><table>" in profile._repr_html_()
