"""Vector search without an index: rows, their order and distances are those of pylance."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples
from vector_tables import assert_same, ours, rows, theirs, vector_array, write

import lancefs
from lancefs.errors import ColumnNotFound, InvalidFilter

ODD = pa.table(
    {
        "id": range(9),
        "v": pa.array(
            [
                [0, 0],
                None,
                [1, 1],
                [float("nan"), 1],
                [1, 1],
                [float("inf"), 0],
                [0, 0],
                [1, None],
                [-3, 4],
            ],
            pa.list_(pa.float32(), 2),
        ),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments and deleted rows."""
    path = tmp_path_factory.mktemp("vectors") / "t.lance"
    write(path, rows(900, 16), max_rows_per_file=300)
    lance.dataset(path).delete("id % 13 = 5")
    return str(path)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("odd") / "t.lance", ODD)


def vector(dimension: int, seed: int = 7) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0, 3, dimension).astype(np.float32)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("dtype", ["halffloat", "float", "double"])
@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_the_nearest_rows_are_those_of_pylance(
    tmp_path: Path, metric: str, dtype: str, version: str
) -> None:
    path = write(
        tmp_path / "t.lance",
        rows(500, 24, dtype=dtype),
        max_rows_per_file=200,
        data_storage_version=version,
    )
    q = vector(24)
    assert_same(ours(path, q, 30, metric=metric), theirs(path, q, 30, metric=metric))


@pytest.mark.parametrize("dimension", [8, 3])
def test_bytes_are_compared_by_the_bits_that_differ(tmp_path: Path, dimension: int) -> None:
    path = write(tmp_path / "t.lance", rows(300, dimension, dtype="uint8"))
    q = np.arange(dimension, dtype=np.uint8) * 31
    assert_same(ours(path, q), theirs(path, q))
    assert ours(path, q).equals(ours(path, q, metric="hamming"))


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("q", [[1, 1], [0, 0], [float("nan"), 0], [-3, 4]])
def test_rows_without_a_distance_are_not_found(odd: str, metric: str, q: list[float]) -> None:
    found, expected = ours(odd, q, 20, metric=metric), theirs(odd, q, 20, metric=metric)
    assert_same(found, expected)
    assert found["id"].to_pylist() == expected["id"].to_pylist()


def test_of_equal_rows_the_one_with_the_lower_id_comes_first(tmp_path: Path) -> None:
    same = vector_array(np.tile(vector(4), (40, 1)), None)
    path = write(tmp_path / "t.lance", pa.table({"id": range(40), "v": same}), max_rows_per_file=7)
    for k in (1, 5, 39, 50):
        found = ours(path, [1, 2, 3, 4], k)
        assert found["id"].to_pylist() == list(range(40))[:k]
        assert found.equals(theirs(path, [1, 2, 3, 4], k))


def test_deleted_rows_are_not_found(table: str) -> None:
    found = ours(table, vector(16), 5000)
    expected = lancefs.open(table).to_table(filter="v IS NOT NULL")
    assert sorted(found["id"].to_pylist()) == expected["id"].to_pylist()
    assert_same(ours(table, vector(16), 50), theirs(table, vector(16), 50))


@pytest.mark.parametrize("text", ["small = 3", "id < 20", "id < 0", "name LIKE 'n1%'"])
def test_a_filter_comes_first_unless_it_is_asked_for_after(table: str, text: str) -> None:
    q = vector(16)
    assert_same(ours(table, q, 12, filter=text), theirs(table, q, 12, filter=text, prefilter=True))
    assert_same(
        ours(table, q, 12, filter=text, prefilter=False),
        theirs(table, q, 12, filter=text, prefilter=False),
    )


def test_the_filters_of_a_dataset_come_first_in_any_case(table: str) -> None:
    q, whole = vector(16), lancefs.open(table)
    part = whole.filter(pc.field("small") == 2)
    found = part.nearest("v", q, 5, filter="id > 100", prefilter=False)
    nearest = whole.nearest("v", q, 5, filter="small = 2")
    assert found.equals(nearest.filter(pc.field("id") > 100))
    assert part.nearest("v", q, 5).equals(nearest)


@pytest.mark.parametrize("bounds", [(None, 1), (1, None), (0, 2), (2, 3), (5, 5), (None, None)])
def test_distances_are_within_the_range(odd: str, bounds: tuple[Any, Any]) -> None:
    found = ours(odd, [1, 1], 20, distance_range=bounds)
    assert found.equals(theirs(odd, [1, 1], 20, distance_range=bounds))


def test_several_vectors_are_searched_at_once(table: str) -> None:
    queries = np.stack([vector(16, seed) for seed in range(5)])
    found = lancefs.open(table).nearest("v", queries, 4, columns=["id"], filter="small < 5")
    expected = lance.dataset(table).to_table(
        columns=["id", "_distance"],
        nearest={"column": "v", "q": queries, "k": 4},
        filter="small < 5",
        prefilter=True,
    )
    assert found.schema.equals(expected.schema)
    assert found["query_index"].equals(expected["query_index"])
    assert_same(found, expected)
    for number, q in enumerate(queries):
        one = ours(table, q, 4, filter="small < 5")
        assert found.filter(pc.field("query_index") == number).drop("query_index").equals(one)
    as_lists = lancefs.open(table).nearest("v", queries.tolist(), 4, columns=["id"])
    assert as_lists["query_index"].to_pylist() == np.repeat(range(5), 4).tolist()


@pytest.mark.parametrize(
    "q",
    [
        [None, 3],
        np.array([None, 3]),
        pa.array([None, 3], pa.float32()),
        pa.array([None, 3], pa.int64()),
        pa.scalar([None, 3], pa.list_(pa.float32(), 2)),
    ],
    ids=lambda q: type(q).__name__,
)
def test_a_missing_value_of_a_query_counts_as_0(odd: str, q: object) -> None:
    assert ours(odd, q, 3).equals(ours(odd, [0, 3], 3))
    found = theirs(odd, pa.array([None, 3], pa.float32()), 3)
    assert_same(ours(odd, q, 3), found)


def test_a_column_may_be_wanted_twice(odd: str) -> None:
    found = ours(odd, [1, 1], 1, columns=["id", "_distance", "id"])
    assert found.column_names == ["id", "_distance", "id"]
    assert found.column(0).equals(found.column(2))


def test_columns_come_in_the_order_wanted(table: str) -> None:
    dataset, q = lancefs.open(table), vector(16)
    names = ["id", "small", "name", "v", "_distance"]
    assert dataset.nearest("v", q, 3).column_names == names
    named = dataset.nearest("v", q, 3, columns=["_distance", "name"], with_row_id=True)
    assert named.column_names == ["_distance", "name", "_rowid"]
    metadata = dataset.nearest(
        "v", q, 3, columns=["_rowid"], with_row_id=True, with_row_address=True
    )
    assert metadata.column_names == ["_rowid", "_distance", "_rowaddr"]
    assert dataset.nearest("v", q, 3, columns=[]).column_names == ["_distance"]
    computed = dataset.nearest("v", q, 3, columns={"twice": pc.field("id") * 2, "n": "name"})
    assert computed.column_names == ["twice", "n", "_distance"]
    plain = dataset.nearest("v", q, 3)
    assert computed["twice"].to_pylist() == [2 * number for number in plain["id"].to_pylist()]
    assert plain.equals(dataset.take(row_ids=named["_rowid"].to_numpy()).append_column(
        "_distance", named["_distance"]
    ))  # fmt: skip


def test_the_schema_is_known_before_the_search(table: str) -> None:
    dataset = lancefs.open(table)
    for q in (vector(16), [vector(16)]):
        search = dataset.vector_search("v", q, 3, columns=["name", "id"], with_row_id=True)
        assert search.to_table().schema.equals(search.schema)
        nothing = dataset.nearest("v", q, 3, filter="id < 0")
        assert nothing.num_rows == 0
        assert nothing.schema.equals(dataset.vector_search("v", q).schema)


def test_stable_row_ids_say_which_rows_they_are(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.lance", rows(200, 8), max_rows_per_file=50, enable_stable_row_ids=True
    )
    lance.dataset(path).update({"small": "0"}, where="id % 5 = 2")
    lance.dataset(path).delete("id % 11 = 3")
    lance.dataset(path).optimize.compact_files()
    q = vector(8)
    found = lancefs.open(path).nearest("v", q, 15, columns=["id"], with_row_id=True)
    assert_same(found.drop("_rowid"), theirs(path, q, 15))
    same = lancefs.open(path).take(row_ids=found["_rowid"].to_numpy(), columns=["id"])
    assert same["id"].equals(found["id"])


def test_each_version_has_its_own_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", rows(50, 4))
    q = vector(4)
    before = ours(path, q, 50)
    write(tmp_path / "t.lance", rows(50, 4, seed=1, first=50), mode="append")
    assert lancefs.open(path, version=1).nearest("v", q, 50, columns=["id"]).equals(before)
    assert_same(ours(path, q, 50), theirs(path, q, 50))


def test_a_column_that_fragments_lack_has_no_vectors_there(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", rows(20, 4).drop("v"))
    lance.dataset(path).add_columns(pa.schema([pa.field("v", pa.list_(pa.float32(), 4))]))
    assert ours(path, [1, 2, 3, 4]).num_rows == 0
    write(tmp_path / "t.lance", rows(20, 4, first=20), mode="append")
    assert_same(ours(path, [1, 2, 3, 4]), theirs(path, [1, 2, 3, 4]))


@pytest.mark.parametrize(
    "q",
    [
        [1.0, 1.0],
        (1, 1),
        np.ones(2),
        np.ones(2, np.float16),
        pa.array([1.0, 1.0]),
        pa.chunked_array([[1.0], [1.0]]),
        pa.scalar([1.0, 1.0], pa.list_(pa.float32(), 2)),
    ],
    ids=["list", "tuple", "double", "halffloat", "arrow", "chunked", "scalar"],
)
def test_a_vector_may_be_given_in_many_forms(odd: str, q: object) -> None:
    assert ours(odd, q, 3).equals(ours(odd, [1.0, 1.0], 3))


def test_vectors_of_arrow_are_several(odd: str) -> None:
    several = pa.array([[1, 1], [0, 0]], pa.list_(pa.float32(), 2))
    assert ours(odd, several, 3).equals(ours(odd, [[1, 1], [0, 0]], 3))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"q": [1, 2, 3]},
            ValueError,
            "the query vector has 3 values; vectors of column 'v' have 2",
        ),
        ({"q": 1.0}, ValueError, r"the query vector has the shape \(\)"),
        ({"q": []}, ValueError, "the query vector has the shape"),
        ({"q": "near"}, TypeError, "the query vector is 'near'; a vector of numbers"),
        ({"q": [[1, 2], [3]]}, TypeError, "several of one length"),
        ({"q": np.array([1j, 2])}, TypeError, "a vector of numbers"),
        ({"q": np.array(["2020-01-01"] * 2, "M8[D]")}, TypeError, "a vector of numbers"),
        ({"q": [10**400, 1]}, TypeError, "a vector of numbers"),
        ({"k": 0}, ValueError, "k is 0"),
        ({"k": 2.5}, ValueError, "k is 2.5"),
        ({"k": None}, ValueError, "k is None"),
        ({"nprobes": 0}, ValueError, "nprobes is 0"),
        ({"refine_factor": -1}, ValueError, "refine_factor is -1"),
        ({"metric": "l3"}, ValueError, "metric is 'l3'; one of l2, cosine, dot, hamming"),
        ({"metric": "hamming"}, ValueError, "not compared by hamming; l2, cosine, dot"),
        ({"distance_range": 3}, ValueError, "distance_range is 3"),
        ({"distance_range": (float("nan"), 1)}, ValueError, "distance_range is"),
        ({"column": "id"}, TypeError, "column 'id' is int64; vectors are fixed_size_list"),
        ({"column": "w"}, ColumnNotFound, "no column 'w'"),
        ({"columns": "id"}, TypeError, r"a list of names was expected: \['id'\]"),
        ({"columns": ["w"]}, ColumnNotFound, "no column 'w'"),
        ({"filter": "id >"}, InvalidFilter, "id >"),
        ({"filter": "w > 1", "prefilter": False}, ColumnNotFound, "w"),
    ],
)
def test_what_makes_no_sense_is_an_error_before_anything_is_read(
    odd: str, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        lancefs.open(odd).vector_search(**{"column": "v", "q": [1, 1], **arguments})


@pytest.mark.parametrize("name", ["_distance", "query_index"])
def test_a_column_with_a_name_that_a_search_adds_is_an_error(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "t.lance", rows(5, 2).append_column(name, pa.array(range(5))))
    with pytest.raises(ValueError, match=f"has a column '{name}'"):
        lancefs.open(path).vector_search("v", [[1, 2]])


def test_bytes_have_no_fractions(tmp_path: Path) -> None:
    path = write(tmp_path / "t.lance", rows(5, 2, dtype="uint8"))
    for q in ([0.5, 1], [256, 1], [-1, 1]):
        with pytest.raises(ValueError, match="whole numbers from 0 to 255"):
            lancefs.open(path).vector_search("v", q)


def test_a_search_says_how_rows_were_found(table: str) -> None:
    dataset, q = lancefs.open(table), vector(16)
    wanted, every = dataset.count_rows("small = 1"), dataset.count_rows()
    search = dataset.vector_search("v", q, 3, filter="small = 1")
    assert search.explain() == f"exact search: {wanted} vectors compared by l2"
    after = dataset.vector_search("v", q, 3, "cosine", filter="id = -1", prefilter=False)
    lines = [
        f"exact search: {every} vectors compared by cosine",
        "filter after the search: 0 rows left",
    ]
    assert after.explain() == "\n".join(lines)


def test_a_search_works_in_another_process(table: str) -> None:
    search = lancefs.open(table).vector_search("v", vector(16), 3, filter="small = 1")
    assert pickle.loads(pickle.dumps(search)).to_table().equals(search.to_table())


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_any_vectors_give_the_rows_of_pylance(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    dimension = data.draw(st.integers(1, 20))
    numbers = st.sampled_from([0, 1, -1, 0.5, -2.25, 3, float("nan"), float("inf")])
    vectors = data.draw(
        st.lists(
            st.none() | st.lists(numbers, min_size=dimension, max_size=dimension),
            min_size=1,
            max_size=40,
        )
    )
    array = pa.array(vectors, pa.list_(pa.float32(), dimension))
    path = write(
        tmp_path_factory.mktemp("any") / "t.lance",
        pa.table({"id": range(len(array)), "v": array}),
        max_rows_per_file=data.draw(st.sampled_from([3, 16, 64])),
        enable_stable_row_ids=data.draw(st.booleans()),
    )
    q = data.draw(st.lists(numbers, min_size=dimension, max_size=dimension))
    k, metric = data.draw(st.integers(1, 45)), data.draw(st.sampled_from(["l2", "cosine", "dot"]))
    assert_same(ours(path, q, k, metric=metric), theirs(path, q, k, metric=metric))
