"""`lancefs.open` and what its dataset does: rows, columns, filters, counts, versions."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from comparison import assert_same_table
from support import modules_after

import lancefs
from lancefs.errors import ColumnNotFound, RefNotFound
from lancefs.lance_dataset import LanceDataset
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun

ROWS = 10_000


def make_rows() -> pa.Table:
    rng = np.random.default_rng(1)
    price = rng.normal(10, 5, ROWS)
    price[::97] = np.nan
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "price": pa.array(price, mask=rng.random(ROWS) < 0.1),
            "city": pa.array(np.array(["Gent", "Lyon", "Porto"])[rng.integers(0, 3, ROWS)]),
            "tags": pa.array([["a", None][: i % 3] if i % 7 else None for i in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pa.Table]:
    """A table of four fragments with deletions, and its rows as pylance reads them."""
    path = str(tmp_path_factory.mktemp("tables") / "shop.lance")
    lance.write_dataset(make_rows(), path, max_rows_per_file=3000)
    lance.dataset(path).tags.create("whole", 1)
    lance.dataset(path).delete("id % 10 = 3 or (id >= 3000 and id < 3500)")
    lance.dataset(path).add_columns({"double_id": "id * 2"})
    return path, lance.dataset(path).to_table()


@pytest.fixture
def dataset(table: tuple[str, pa.Table]) -> LanceDataset:
    return lancefs.open(table[0])


@pytest.fixture
def rows(table: tuple[str, pa.Table]) -> pa.Table:
    return table[1]


class Reads:
    """Watches what is asked of fragments, alone or joined."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[list[str], int]] = []
        for kind in (FragmentReader, FragmentRun):
            self._watch(kind, monkeypatch)

    def _watch(
        self, kind: type[FragmentReader | FragmentRun], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = kind.read

        def read(self_: FragmentReader, fields, ranges, *blobs):  # type: ignore[no-untyped-def]
            self.calls.append(([f.name for f in fields], sum(b - a for a, b in ranges)))
            return original(self_, fields, ranges, *blobs)

        monkeypatch.setattr(kind, "read", read)


def test_a_version_is_what_was_committed(table: tuple[str, pa.Table]) -> None:
    path, rows = table
    assert_same_table(lancefs.open(path).to_table(), rows)
    for whole in (lancefs.open(path, version=1), lancefs.open(path, tag="whole")):
        assert whole.version == 1
        assert whole.to_table().num_rows == ROWS
        assert whole.schema.names == ["id", "price", "city", "tags"]
    assert lancefs.open(path, ref="v2").schema.names == ["id", "price", "city", "tags"]
    assert lancefs.open(path).versions() == [1, 2, 3]
    assert lancefs.open(path).tags()["whole"].version == 1
    assert lancefs.open(path).branches() == {}


def test_a_time_opens_the_newest_version_until_then(table: tuple[str, pa.Table]) -> None:
    path, _ = table
    first = lancefs.open(path, version=1).manifest.timestamp
    assert lancefs.open(path, as_of=first).version == 1
    assert lancefs.open(path, as_of=datetime.now(UTC)).version == 3
    with pytest.raises(RefNotFound, match="or before; the oldest"):
        lancefs.open(path, as_of=first - timedelta(days=1))


def test_columns_come_in_the_order_asked_for(dataset: LanceDataset, rows: pa.Table) -> None:
    assert_same_table(dataset.to_table(columns=["city", "id"]), rows.select(["city", "id"]))
    assert dataset.to_table(columns=["city"]).schema.names == ["city"]
    nothing = dataset.to_table(columns=[])
    assert (nothing.num_columns, nothing.num_rows) == (0, rows.num_rows)


def test_columns_can_be_computed(dataset: LanceDataset, rows: pa.Table) -> None:
    columns = {"x": pc.field("id") * 2, "where": "city"}
    table = dataset.to_table(columns=columns, filter=pc.field("id") < 5)
    assert table.to_pydict() == {
        "x": [0, 2, 4, 8],
        "where": rows.filter(pc.field("id") < 5)["city"].to_pylist(),
    }


def test_a_missing_column_names_the_nearest(dataset: LanceDataset) -> None:
    with pytest.raises(ColumnNotFound, match="no column 'pric'; did you mean price"):
        dataset.to_table(columns=["pric"])


@pytest.mark.parametrize("read", ["to_table", "count_rows", "head"])
def test_a_filter_or_expression_over_an_unknown_column_names_the_nearest(
    dataset: LanceDataset, read: str
) -> None:
    given = (1,) if read == "head" else ()
    with pytest.raises(ColumnNotFound, match="no column 'pric'; did you mean price"):
        getattr(dataset, read)(*given, filter=(pc.field("pric") > 1) & (pc.field("id") > 1))
    with pytest.raises(ColumnNotFound, match="no column 'pric'; did you mean price"):
        dataset.scanner(columns={"double": pc.multiply(pc.field("pric"), 2)})


def test_a_filter_of_another_type_is_refused_with_examples(dataset: LanceDataset) -> None:
    for read in (dataset.to_table, dataset.count_rows, dataset.to_batches):
        with pytest.raises(TypeError, match=r"filter is 3; SQL text .*[.]field\("):
            read(filter=3)  # type: ignore[operator]


FILTERS = [
    pc.field("id") == 4711,
    pc.field("id") != 4711,
    (pc.field("id") >= 2990) & (pc.field("id") < 3510),
    pc.field("price") > 10,
    ~(pc.field("price") > 10),
    pc.field("price").is_null(),
    pc.field("price").is_null(nan_is_null=True),
    pc.field("price").is_valid() & pc.is_nan(pc.field("price")),
    pc.field("city").isin(["Gent", "Oslo"]),
    pc.starts_with(pc.field("city"), "P"),
    pc.field("tags").is_null(),
    pc.list_value_length(pc.field("tags")) == 2,
    (pc.field("city") == "Lyon") | (pc.field("id") < 3),
    pc.field("id") < 0,
    pc.scalar(True),
    pc.scalar(False),
]


@pytest.mark.parametrize("expression", FILTERS, ids=str)
def test_filters_are_exact(
    dataset: LanceDataset, rows: pa.Table, expression: pc.Expression
) -> None:
    expected = rows.filter(expression)
    assert_same_table(dataset.to_table(filter=expression), expected)
    some = dataset.to_table(columns=["double_id"], filter=expression)
    assert some["double_id"].to_pylist() == expected["double_id"].to_pylist()
    assert dataset.count_rows(expression) == expected.num_rows


def test_a_filter_reads_the_other_columns_only_where_rows_are_left(
    dataset: LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    assert dataset.to_table(columns=["city"], filter=pc.field("id") == 4711).num_rows == 1
    city = [count for names, count in reads.calls if names == ["city"]]
    assert city == [1]
    assert sum(count for names, count in reads.calls if names == ["id"]) == ROWS


def test_counting_reads_no_data(dataset: LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch)
    assert dataset.count_rows() == 8550
    assert dataset.scanner(limit=10).count_rows() == 10
    assert reads.calls == []


def test_head_reads_no_more_than_it_shows(
    dataset: LanceDataset, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    assert_same_table(dataset.head(10), rows.slice(0, 10))
    assert sum(count for _, count in reads.calls) <= 20


# What a look at the first rows of a local table has no use for.
LATE = {
    "difflib",
    "duckdb",
    "fsspec",
    "lancefs.scan.conditions",
    "lancefs.datafile.v2_1.column_kinds",
    "lancefs.datafile.jsonb",
    "lancefs.datafile.v2_1.layouts.blob_page",
    "lancefs.datafile.v2_1.layouts.fullzip_page",
    "lancefs.datafile.v2_1.layouts.planar_page",
    "lancefs.datafile.legacy",
    "lancefs.datafile.v2_0",
    "lancefs.scan.expressions",
    "lancefs.filesystem",
    "lancefs.short_texts",
    "lancefs.showing",
    "lancefs.table.bitmaps",
    "lancefs.table.blobs",
    "lancefs.table.changes",
    "lancefs.table.fresh",
    "lancefs.table.history",
    "lancefs.table.indices",
    "lancefs.table.mem_wal",
    "lancefs.table.overlays",
    "lancefs.table.row_ids",
    "lancefs.table.transactions",
    "lancefs.views",
    "pyroaring",
}


def test_the_first_rows_of_a_local_table_import_no_more_than_they_need(
    table: tuple[str, pa.Table],
) -> None:
    modules = modules_after(f"import lancefs; print(lancefs.open({table[0]!r}).head(2)['id'])")
    assert "lancefs.lance_dataset" in modules
    assert LATE & modules == set()


@pytest.mark.parametrize(("offset", "limit"), [(0, 0), (5, 3), (2690, 20), (8549, 5), (9000, 5)])
def test_limit_and_offset_count_the_rows_that_pass(
    dataset: LanceDataset, rows: pa.Table, offset: int, limit: int
) -> None:
    got = dataset.to_table(offset=offset, limit=limit)
    assert_same_table(got, rows.slice(offset, limit))
    expression = pc.field("id") >= 2000
    got = dataset.to_table(filter=expression, offset=offset, limit=limit)
    expected = rows.filter(expression).slice(offset, limit)
    assert_same_table(got, expected)


def test_rows_are_taken_by_position(dataset: LanceDataset, rows: pa.Table) -> None:
    rng = np.random.default_rng(2)
    wanted = rng.integers(0, rows.num_rows, 500)
    assert_same_table(dataset.take(wanted), rows.take(wanted))
    assert dataset.take([5, 5, 2], columns=["id"])["id"].to_pylist() == [6, 6, 2]
    assert dataset.take([]).num_rows == 0
    assert dataset.take([5, 5, 2], columns=[]).num_rows == 3
    assert dataset.take([1, 0], columns=[], filter=pc.field("id") > 2).num_rows == 2
    for bad in ([8550], [-1]):
        with pytest.raises(IndexError, match=f"row {bad[0]} of .* which has 8550 rows"):
            dataset.take(bad)


def test_batches_hold_to_their_size(dataset: LanceDataset, rows: pa.Table) -> None:
    batches = list(dataset.to_batches(batch_size=1000))
    assert max(batch.num_rows for batch in batches) <= 1000
    assert_same_table(pa.Table.from_batches(batches), rows)
    with pytest.raises(ValueError, match="batch_size is 0"):
        dataset.to_batches(batch_size=0)


def test_streams_and_frames_have_all_rows(dataset: LanceDataset, rows: pa.Table) -> None:
    assert_same_table(pa.table(dataset), rows)
    assert_same_table(dataset.to_reader(columns=["id"]).read_all(), rows.select(["id"]))
    assert dataset.to_pandas(columns=["id"])["id"].tolist() == rows["id"].to_pylist()
    assert dataset.to_polars(columns=["city"])["city"].to_list() == rows["city"].to_pylist()


def test_a_dataset_survives_pickling(dataset: LanceDataset, rows: pa.Table) -> None:
    copy = pickle.loads(pickle.dumps(lancefs.open(dataset.uri, version=2)))
    assert (copy.version, copy.count_rows()) == (2, 8550)
    assert_same_table(pickle.loads(pickle.dumps(dataset)).to_table(), rows)


def test_no_method_of_pyarrow_is_inherited(dataset: LanceDataset) -> None:
    # An inherited C++ method would read what stands behind every LanceDataset, which has no rows.
    for name in dir(pads.Dataset):
        if not name.startswith("_"):
            owner = next(each for each in LanceDataset.__mro__ if name in vars(each))
            assert owner.__module__.startswith("lancefs"), f"{name} is inherited"
    assert dataset.filter(pc.field("id") < 2).to_table().num_rows == 2
    assert dataset.sort_by([("id", "descending")]).to_table()["id"][0].as_py() == ROWS - 1
    other = pads.dataset(pa.table({"id": [0, 1], "x": ["a", "b"]}))
    with pytest.raises(pa.ArrowInvalid, match="list<item: string> is not supported in join"):
        dataset.join(other, "id")
    assert [each.count_rows() for each in dataset.get_fragments()] == [2700, 2250, 2700, 900]
    assert dataset.partition_expression.equals(pc.scalar(True))
    renamed = dataset.replace_schema(dataset.schema.remove(0))
    assert renamed.schema.names == ["price", "city", "tags", "double_id"]


def test_fragments_are_counted_without_a_scan(
    dataset: LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = list(dataset.filter(pc.field("id") < 2).get_fragments())
    assert [each.count_rows() for each in few] == [2, 0, 0, 0]
    assert next(dataset.get_fragments()).count_rows("id < 3") == 3
    monkeypatch.setattr(LanceDataset, "scanner", lambda *_, **__: pytest.fail("a scan"))
    assert [each.count_rows() for each in dataset.get_fragments()] == [2700, 2250, 2700, 900]


def test_its_repr_says_what_and_how_much(dataset: LanceDataset) -> None:
    expected = f"<LanceDataset {dataset.uri}@3: 8,550 rows, 5 columns, 4 fragments>"
    assert repr(dataset) == expected
