"""A few rows of lists and structs are found by their levels, and are the rows of the table."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.datafile.container import Container
from lancefs.datafile.v2_1 import nested_plans, point_reader
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.levels import Layer
from lancefs.datafile.v2_1.nested_points import FilePlan, FoundLeaves, read_leaves
from lancefs.errors import CorruptFile
from lancefs.proto import encodings_v2_1_pb2 as pb

ITEM, VALID = pb.REPDEF_NULLABLE_ITEM, pb.REPDEF_ALL_VALID_ITEM

VERSIONS = ("2.1", "2.2", "2.3")
ROWS = 5000
_WORDS = ["alpha", "beta", "gamma delta", "", "épsilon"]


@pytest.fixture
def by_kernels(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The columns that kernels have read since, by the names of the leaves' tops."""
    names: set[str] = set()

    def noting(plans: list[FilePlan], *others: Any) -> FoundLeaves:
        names.update(leaf.top.name for leaf in plans[0].leaves)
        return read_leaves(plans, *others)

    monkeypatch.setattr(point_reader, "read_leaves", noting)
    return names


def column(kind: str, rows: int, nulls: str, longest: int) -> pa.Array:
    """Return nested values.

    Args:
        kind: What nests.
        rows: Number of rows.
        nulls: Where nulls are: `outside`, `inside`, `both` or `none`.
        longest: Items of the longest lists.
    """
    source = np.random.default_rng(rows + longest)
    outside, inside = nulls in ("outside", "both"), nulls in ("inside", "both")

    def item(number: int) -> Any:
        if inside and number % 5 == 0:
            return None
        return {
            "numbers": number,
            "words": f"word {number} {_WORDS[number % 5]}",
            "categories": _WORDS[number % 5],
            "structs": {"a": number, "b": None if inside and number % 3 else str(number)},
            "lists": [number % 999] * (number % 3),
        }[kind.split(" of ")[-1]]

    lengths = source.integers(0, 4, rows)
    lengths[source.integers(0, rows, 3)] = longest
    values = []
    for row, length in enumerate(lengths.tolist()):
        items = [item(row * 7 + k) for k in range(length)]
        value: Any = items if kind.startswith("list") else item(row)
        if kind.startswith("struct of list"):
            value = {"n": row, "items": items}
        elif kind.startswith("map"):
            value = [(str(k), number) for k, number in enumerate(items)]
        values.append(None if outside and row % 4 == 0 else value)
    return pa.array(values, type_of(kind))


def type_of(kind: str) -> pa.DataType:
    inner = {
        "numbers": pa.int32(),
        "words": pa.string(),
        "categories": pa.string(),
        "structs": pa.struct([("a", pa.int64()), ("b", pa.string())]),
        "lists": pa.large_list(pa.int16()),
    }[kind.split(" of ")[-1]]
    if kind.startswith("struct of list"):
        return pa.struct([("n", pa.int64()), ("items", pa.list_(inner))])
    if kind.startswith("map"):
        return pa.map_(pa.string(), inner)
    return pa.list_(inner) if kind.startswith("list") else inner


KINDS = [
    "list of numbers",
    "list of words",
    "list of categories",
    "list of structs",
    "list of lists",
    "structs",
    "struct of list of words",
]


@cache
def nested(nulls: str) -> pa.Table:
    """Make a column of each kind."""
    return pa.table({kind: column(kind, ROWS, nulls, 40) for kind in KINDS})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", ["none", "outside", "inside", "both"])
def test_rows_of_nested_columns_are_those_that_pylance_reads(
    version: str, nulls: str, tmp_path: Path, by_kernels: set[str]
) -> None:
    table = nested(nulls)
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    ours, theirs = lancefs.open(tmp_path / "t"), lance.dataset(tmp_path / "t")
    for rows in ([0], [ROWS - 1], [3, 4, 5, 1023, 1024, 1025], list(range(0, ROWS, 97))):
        found = ours.take(rows)
        found.validate(full=True)
        assert found.equals(table.take(rows))
        assert found.equals(theirs.take(rows))
    assert ours.head(7).equals(table.slice(0, 7))
    if version != "2.3":  # which stores the structure of pages in another way
        assert by_kernels == set(KINDS)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_one_row_and_the_first_rows_are_read_by_kernels_too(
    version: str, tmp_path: Path, by_kernels: set[str]
) -> None:
    table = nested("both")
    table = table.append_column("flat", pa.array(np.arange(ROWS)))
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    dataset = lancefs.open(tmp_path / "t")
    for start, count in ((0, 1), (4, 1), (1023, 2), (ROWS - 1, 1), (0, 1000)):
        by_kernels.clear()
        scanner = dataset.scanner(offset=start, limit=count)
        assert scanner.to_table().equals(table.slice(start, count))
        # Many contiguous flat values are read by a kernel of their own.
        assert by_kernels | {"flat"} == {*KINDS, "flat"}
        assert ("flat" in by_kernels) == (count < 256)
        assert scanner.stats.pages >= table.num_columns


@pytest.mark.parametrize("version", VERSIONS)
def test_many_lists_that_lie_apart_are_those_of_the_table(
    version: str, tmp_path: Path, by_kernels: set[str]
) -> None:
    """Pages of lists are decoded as a whole, which takes several times as long."""
    kinds = ["list of words", "nullable"]
    rows = 40_000
    words = pa.array([[f"tag{n % 7}", None][: n % 3] if n % 11 else None for n in range(rows)])
    members = pa.array([{"x": n} if n % 3 else None for n in range(rows)])
    table = pa.table({kinds[0]: words, kinds[1]: members, "flat": np.arange(rows)})
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    dataset = lancefs.open(tmp_path / "t")
    for step, run in ((5, 1), (100, 20)):
        starts = np.arange(0, rows, step)
        wanted = (starts[:, None] + np.arange(run)).ravel()
        assert dataset.take(wanted).equals(table.take(wanted))
    if version != "2.3":
        assert by_kernels == set(kinds)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_of_files_with_different_nulls_are_read_as_one(
    version: str, tmp_path: Path, by_kernels: set[str]
) -> None:
    """Their pages number their levels differently; those without nulls may have none."""
    parts = []
    for number, nulls in enumerate(["none", "outside", "inside", "both", "none"]):
        rows = 1500 + number
        part = pa.table({kind: column(kind, rows, nulls, 9) for kind in KINDS})
        lance.write_dataset(part, tmp_path / "t", mode="append", data_storage_version=version)
        parts.append(part)
    table = pa.concat_tables(parts)
    # Files that are read as a whole would be read in another way.
    ours, theirs = lancefs.open(tmp_path / "t"), lance.dataset(tmp_path / "t")
    for rows in ([5, 1600, 3100, 4700, 6300], list(range(0, len(table), 61)), [4, 6400]):
        found = ours.take(rows)
        found.validate(full=True)
        assert found.equals(table.take(rows))
        assert found.equals(theirs.take(rows))
    lance.dataset(tmp_path / "t").delete("structs IS NOT NULL AND structs.a % 3 = 1")
    assert (
        lancefs.open(tmp_path / "t")
        .take([2, 900, 4000])
        .equals(lance.dataset(tmp_path / "t").take([2, 900, 4000]))
    )


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_all_rows_of_many_small_files_are_read_by_few_calls(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than are read singly of a file, of files of which each is read so as a whole."""
    files: list[int] = []

    def counting(plans: list[FilePlan], *others: Any) -> FoundLeaves:
        files.append(len(plans))
        return read_leaves(plans, *others)

    monkeypatch.setattr(point_reader, "read_leaves", counting)
    table = pa.table({kind: column(kind, ROWS, "both", 9) for kind in KINDS})
    path = tmp_path / "t"
    lance.write_dataset(table, path, max_rows_per_file=100, data_storage_version=version)
    found = lancefs.open(path).to_table()
    found.validate(full=True)
    assert found.equals(table)
    assert sum(files) >= ROWS // 100
    assert len(files) <= 5
    kept = lancefs.open(path).to_table(filter="structs.a % 3 = 1")
    assert kept.equals(lance.dataset(path).to_table(filter="structs.a % 3 = 1"))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_texts_whose_last_page_is_short_are_read_by_kernels_too(
    version: str, by_kernels: set[str], tmp_path: Path
) -> None:
    """Lance compresses the texts of long pages alone."""
    rows, short = 420_000, 300
    texts = pa.array([f"text {k * 7919 % 1_000_003} of {k % 977}" for k in range(rows)])
    ends = pa.array(np.arange(rows + 1), pa.int32())
    batch = pa.record_batch({"flat": texts, "nested": pa.ListArray.from_arrays(ends, texts)})
    batches = [batch.slice(0, rows - short), batch.slice(rows - short)]
    stream = pa.RecordBatchReader.from_batches(batch.schema, batches)
    path = str(tmp_path / "t.lance")
    lance.write_dataset(stream, path, data_storage_version=version)
    table, wanted = pa.Table.from_batches([batch]), [0, 1, rows // 2, rows - short, rows - 1]
    dataset = lancefs.open(path)
    assert dataset.take(wanted).equals(table.take(wanted))
    assert by_kernels == {"flat", "nested"}
    assert dataset.to_table().equals(table)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_lists_that_go_on_in_other_chunks_are_read_whole(
    version: str, tmp_path: Path, by_kernels: set[str]
) -> None:
    """Some lists fill several chunks; rows without items have no values at all."""
    lengths = np.array([3, 0, 9000, 0, 0, 20000, 1, 2500, 0] * 40)
    items = pa.array(np.arange(lengths.sum()) * 977 % 1000003)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), items)
    table = pa.table({"id": np.arange(len(lists)), "list": lists})
    lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    ours = lancefs.open(tmp_path / "t")
    for rows in ([2], [1, 3], [2, 3, 4, 5, 6], [7, 8, 9], [0, 359], [1, 4, 8, 10]):
        assert ours.take(rows).equals(table.take(rows))
    assert "list" in by_kernels


@st.composite
def nested_tables(draw: st.DrawFn) -> tuple[list[pa.Table], list[int]]:
    """Draw the parts of a table, and rows of it."""
    leaf = draw(st.sampled_from([pa.int64(), pa.string(), pa.bool_(), pa.float32()]))
    values = {
        pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.string(): st.text("aé ", max_size=9),
        pa.bool_(): st.booleans(),
        pa.float32(): st.floats(width=32, allow_nan=False),
    }[leaf]
    data_type = leaf
    for _ in range(draw(st.integers(1, 3))):
        has_nulls = draw(st.booleans())
        inner = st.none() | values if has_nulls else values
        if draw(st.booleans()):
            data_type, values = pa.list_(data_type), st.lists(inner, max_size=3)
        else:
            data_type = pa.struct([("a", data_type), ("b", pa.int8())])
            values = st.fixed_dictionaries({"a": inner, "b": st.integers(-9, 9)})
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        own = draw(st.lists(values | st.none() if draw(st.booleans()) else values, max_size=8))
        repeated = own * draw(st.sampled_from([4, 50, 300])) or [None] * 20
        parts.append(pa.table({"v": pa.array(repeated, data_type)}))
    rows = sum(map(len, parts))
    return parts, draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=max(rows // 5, 1)))


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn=nested_tables())
def test_drawn_rows_of_drawn_tables_are_those_of_the_table(
    version: str, drawn: tuple[list[pa.Table], list[int]], tmp_path_factory: Any
) -> None:
    parts, rows = drawn
    path = tmp_path_factory.mktemp("nested") / "t"
    for part in parts:
        lance.write_dataset(part, path, mode="append", data_storage_version=version)
    whole, ours = pa.concat_tables(parts), lancefs.open(path)
    found = ours.take(rows)
    found.validate(full=True)
    assert found.equals(whole.take(rows))
    assert found.equals(ours.to_table().take(rows))


@pytest.mark.parametrize("fragments", [1, 2])
def test_a_damaged_repetition_index_is_named(fragments: int, tmp_path: Path) -> None:
    """Also of a page that other reads do not look up rows in."""
    table = pa.table({"id": np.arange(ROWS), "list": column("list of numbers", ROWS, "both", 40)})
    lance.write_dataset(table, tmp_path / "t", max_rows_per_file=ROWS // fragments)
    dataset = lancefs.open(tmp_path / "t")
    file = dataset.opened.files.data_file(dataset.fragments[0].files[0])
    start, _ = Container(file).column(1).pages[0].buffers[-1]
    path = tmp_path / "t" / "data" / Path(file.path).name
    content = bytearray(path.read_bytes())
    content[start : start + 8] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(content)
    again, rows = lancefs.open(tmp_path / "t"), [3, ROWS - 1]
    message = rf"{path.name}.*list, column 1 \(.*\), page 0.*repetition index"
    with pytest.raises(CorruptFile, match=message):
        again.take(rows)
    assert again.take(rows, columns=["id"])["id"].to_pylist() == rows


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ([ITEM, ITEM], [True, True]),
        ([VALID, VALID], [False, False]),
        ([ITEM, VALID], [True, False]),
    ],
)
def test_a_struct_in_a_null_struct_is_null_where_its_page_says_so(
    inner: list[int], expected: list[bool]
) -> None:
    """Lance 0.33 to 0.38 said so of pages that have such nulls only.

    All readers must agree: a view is laid out by one of them, and gets its values from another.
    """
    layers = [*inner, ITEM, pb.REPDEF_NULLABLE_LIST]
    one = MiniBlock(pb.MiniBlockLayout(layers=layers))
    around = (Layer(False, True, False), Layer(False, True, False), Layer(True, True, True))
    found = nested_plans._layers_of([one, one], around)
    assert found is not None
    assert [layer.nullable for layer in found] == [*expected, True, True]
    other = MiniBlock(pb.MiniBlockLayout(layers=[ITEM, ITEM, ITEM, pb.REPDEF_NULLABLE_LIST]))
    assert (nested_plans._layers_of([one, other], around) is None) == (inner != [ITEM, ITEM])
    free = MiniBlock(pb.MiniBlockLayout(layers=[VALID, VALID, VALID, pb.REPDEF_NULLABLE_LIST]))
    assert nested_plans._layers_of([one, free], around) == found
