"""Planning: which rows each task reads, and how long a large table takes to plan."""

from __future__ import annotations

import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_support import append, make_table
from support import frame, modules_after

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

import lancefs
from lancefs.proto import table_pb2
from lancefs.spark.data_source import LanceDataSource
from lancefs.spark.partitions import Span, plan
from lancefs.spark.pinned_version import open_table
from lancefs.spark.table_options import TableOptions
from lancefs.spark.task_rows import scan
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import DataFile, Fragment
from lancefs.table.refs import Ref

FRAGMENTS = 100_000


def fragments(rows: list[int | None]) -> list[Fragment]:
    return [Fragment(id=i, files=(), physical_rows=count) for i, count in enumerate(rows)]


def covered(spans: list[Span], rows: list[int | None]) -> list[tuple[int, int]]:
    """All rows of all spans, as (fragment, row)."""
    found = []
    for span in spans:
        for position in range(span.first, span.last + 1):
            whole = rows[position]
            start, end = span.rows or (0, 3 if whole is None else whole)
            found += [(position, row) for row in range(start, end)]
    return found


# What the Python processes of Spark do for a query: plan and read whole fragments, or parts of
# them, and read columns at positions.
PROCESSES = {
    "a fragment in a task": """
        source = LanceDataSource({{"path": {0!r}}})
        reader = source.reader(source.schema())
        assert sum(b.num_rows for p in reader.partitions() for b in reader.read(p)) == 10
    """,
    "a fragment in parts": """
        source = LanceDataSource({{"path": {0!r}, "rowsPerPartition": "3", "columns": "k"}})
        reader = source.reader(source.schema())
        tasks = reader.partitions()
        assert len(tasks) == 4
        assert sum(b.num_rows for p in tasks for b in reader.read(p)) == 10
    """,
    "a column at positions": """
        table = TableOptions({0!r})
        version = open_table(table, Ref())
        pinned = pin(table, version)
        read = column_reader(pinned, ["k"], LongType(), "error")
        same = numbered_column_reader(pinned, ["t", "k"], LongType(), "error")
        for batch in LanceDataset(version).to_batches(["k"], batch_size=4):
            assert read(batch["k"]).equals(batch["k"])
            ones = to_arrow_numbers(np.ones(len(batch), np.int16))
            assert same(batch["k"], ones).equals(batch["k"])
    """,
}
IMPORTS = """
import numpy as np
from pyspark.sql.types import LongType

from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.lance_dataset import LanceDataset
from lancefs.spark.column_reader import column_reader, numbered_column_reader
from lancefs.spark.data_source import LanceDataSource
from lancefs.spark.pinned_version import open_table, pin
from lancefs.spark.table_options import TableOptions
from lancefs.table.refs import Ref
"""


@pytest.mark.parametrize("process", PROCESSES)
def test_a_new_process_of_spark_imports_no_pandas(tmp_path: Path, process: str) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"k": range(10), "t": [f"text {i}" for i in range(10)]}), path)
    modules = modules_after(IMPORTS + dedent(PROCESSES[process]).format(path))
    assert "lancefs.spark.data_source" in modules
    assert "pandas" not in modules
    assert "lancefs.spark.change_feed" not in modules  # nor what only streams need


def test_a_process_that_plans_imports_nothing_that_reads_rows(tmp_path: Path) -> None:
    """Spark starts two such processes for the first query, one after the other."""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"k": range(10)}), path)
    modules = modules_after(f"""
from lancefs.spark.data_source import LanceDataSource
source = LanceDataSource({{"path": {path!r}, "withRowId": "true"}})
assert source.schema().fieldNames() == ["k", "_rowid"]
assert len(source.reader(source.schema()).partitions()) == 1
""")
    assert "lancefs.spark.data_source" in modules
    assert "pyarrow.compute" not in modules
    assert not any(name.startswith(("lancefs.scan", "lancefs.search")) for name in modules)


def test_a_process_that_reads_without_a_filter_imports_no_parser(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"k": range(10)}), path)
    modules = modules_after(IMPORTS + dedent(PROCESSES["a fragment in a task"]).format(path))
    assert "lancefs.spark.task_rows" in modules
    assert "lancefs.spark.filters" not in modules
    assert "lancefs.scan.sql_filter" not in modules


@given(st.lists(st.one_of(st.none(), st.integers(1, 50)), max_size=12), st.integers(1, 60))
def test_every_row_is_in_one_task(rows: list[int | None], most: int) -> None:
    spans = plan(fragments(rows), most)
    every = [(i, row) for i, n in enumerate(rows) for row in range(3 if n is None else n)]
    assert covered(spans, rows) == every
    assert all(len(covered([span], rows)) <= max(most, 3) for span in spans)


def test_only_chosen_fragments_are_planned() -> None:
    spans = plan(fragments([5, 5, 5, 5]), 100, [0, 2, 3])
    assert spans == [Span(0, 0), Span(2, 3)]


def test_small_fragments_share_a_task_and_large_ones_are_split() -> None:
    spans = plan(fragments([10] * 100))
    assert spans == [Span(0, 99)]
    large = plan(fragments([2_500_000]))
    assert [span.rows for span in large] == [
        (0, 851_968),
        (851_968, 1_703_936),
        (1_703_936, 2_500_000),
    ]


def sized(rows: int, size: int) -> Fragment:
    file = DataFile("a.lance", (0,), (0,), 2, 1, size, None)
    return Fragment(id=0, files=(file,), physical_rows=rows)


def test_rows_of_many_bytes_are_cut_by_their_bytes() -> None:
    """A task reads about 128 MB of data files, however few rows these are."""
    few = plan([sized(30_000, 490_000_000)])
    assert [span.rows for span in few] == [(0, 8192), (8192, 16384), (16384, 24576), (24576, 30000)]
    assert len(plan([sized(30_000, 490_000_000)], bytes_per_partition=10**9)) == 1
    assert len(plan([sized(150_000, 250_000_000)])) == 2
    assert len(plan([sized(10, 490_000_000)])) == 4
    assert len(plan([sized(1, 490_000_000)])) == 1


def test_small_fragments_of_many_bytes_share_no_task() -> None:
    heavy = [sized(10, 12_000_000)] * 4
    assert plan(heavy) == [Span(position, position) for position in range(4)]
    assert plan([sized(10, 1_000_000)] * 4) == [Span(0, 3)]


def test_only_the_bytes_of_the_columns_that_are_read_count() -> None:
    large = [sized(30_000, 490_000_000)]
    assert plan(large, types=[pa.int64(), pa.float32()]) == [Span(0, 0)]
    assert len(plan(large, types=[pa.int64(), pa.string()])) == 4


def test_a_fragment_as_lance_writes_it_is_one_task() -> None:
    assert plan(fragments([1024 * 1024])) == [Span(0, 0)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Fragments of 1,000 rows, of which every seventh is deleted."""
    path = make_table(tmp_path_factory.mktemp("plan") / "t.lance", enable_stable_row_ids=True)
    lance.dataset(path).delete("id % 7 = 3")
    return path


@pytest.mark.parametrize("condition", [None, pc.field("city") == "Graz"], ids=["all", "some"])
@pytest.mark.parametrize("batch_rows", [None, 64])
def test_tasks_together_read_what_one_scan_reads(
    table: str, condition: pc.Expression | None, batch_rows: int | None
) -> None:
    names = ["price", "_rowid", "id", "_rowaddr"]
    dataset = lancefs.open(table)
    version = open_table(TableOptions(table), Ref())
    batches = [
        batch
        for span in plan(dataset.fragments, 300)
        for batch in scan(version, span, names, condition, batch_rows)
    ]
    assert pa.Table.from_batches(batches).equals(dataset.to_table(names, condition))
    assert batch_rows is None or max(batch.num_rows for batch in batches) <= batch_rows


def test_a_task_reads_only_its_rows(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    read = FragmentReader.read

    def spy(self: FragmentReader, fields: Any, ranges: Any, *more: Any) -> Any:
        asked.extend(ranges if fields else ())
        return read(self, fields, ranges, *more)

    monkeypatch.setattr(FragmentReader, "read", spy)
    version = open_table(TableOptions(table), Ref())
    some = pc.field("city") == "Graz"
    assert list(scan(version, Span(1, 1, (300, 600)), ["id"], some))
    assert asked
    assert all(300 <= start < end <= 600 for start, end in asked)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight fragments of 1,000 rows with an index over the ids, and one that it does not cover."""
    path = make_table(tmp_path_factory.mktemp("plan") / "t.lance", 8000)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    append(path, 8000, 1000)
    return path


@pytest.mark.parametrize(
    ("filter", "options", "tasks"),
    [
        ("id = 3500", {}, [(3, 500)]),
        ("id in (10, 7999) and price >= 0", {}, [(0, 0), (7, 500)]),
        ("id = 3500", {"useIndex": "false"}, None),
        ("price = 3", {}, None),
        (None, {}, None),
    ],
)
def test_rows_that_an_index_rules_out_make_no_task(
    indexed: str, filter: str | None, options: dict[str, str], tasks: list[tuple[int, int]] | None
) -> None:
    given = {"path": indexed, "rowsPerPartition": "500", **options}
    source = LanceDataSource(given if filter is None else {**given, "filter": filter})
    reader = source.reader(source.schema())
    planned = reader.partitions()
    found = [(first, rows[0]) for first, _, rows in (one.value for one in planned)]
    covered = [(i, row) for i in range(8) for row in (0, 500)] if tasks is None else tasks
    assert found == [*covered, (8, 0), (8, 500)]
    rows = [batch for one in planned for batch in reader.read(one)]
    expected = lancefs.open(indexed).count_rows(filter, use_index=False)
    assert sum(batch.num_rows for batch in rows) == expected


def test_small_fragments_share_a_task_though_an_index_rules_out_some(indexed: str) -> None:
    source = LanceDataSource({"path": indexed, "filter": "id in (10, 3500, 7999)"})
    assert len(source.reader(source.schema()).partitions()) == 1


def test_memory_of_a_task_does_not_grow_with_the_fragment(tmp_path: Path) -> None:
    count, width = 1_000_000, 400
    values = pa.py_buffer(np.random.default_rng(0).bytes(count * width))
    offsets = pa.py_buffer(np.arange(0, (count + 1) * width, width, np.int32))
    rows = pa.Array.from_buffers(pa.binary(), count, [None, offsets, values])
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"x": rows}), path, data_storage_version="2.1")
    del rows, values
    version = open_table(TableOptions(path), Ref())
    (span,) = plan(version.manifest.fragments, bytes_per_partition=2**30)
    before, most, seen = anonymous_bytes(), 0, 0
    for batch in scan(version, span, ["x"]):
        seen += batch.num_rows
        most = max(most, anonymous_bytes())
    assert seen == count
    assert most - before < count * width / 2


def anonymous_bytes() -> int:
    """The memory of this process, without the pages of files."""
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = [one for one in status if one.startswith("RssAnon")]
    return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of which there is only the manifest, of 100,000 fragments of a million rows."""
    path = tmp_path_factory.mktemp("plan") / "t.lance"
    (path / "_versions").mkdir(parents=True)
    message = table_pb2.Manifest(version=1)
    field = message.fields.add(name="id", id=0, parent_id=-1, logical_type="int64", nullable=True)
    assert field.id == 0
    for number in range(FRAGMENTS):
        fragment = message.fragments.add(id=number, physical_rows=1_000_000)
        file = fragment.files.add(
            path=f"{number:032x}.lance", file_major_version=2, file_minor_version=1
        )
        file.fields.append(0)
        file.column_indices.append(0)
        file.file_size_bytes = 8_000_000
    (path / "_versions" / "1.manifest").write_bytes(frame(message))
    return path


def test_a_hundred_thousand_fragments_plan_in_seconds(large: Path) -> None:
    from pyspark.serializers import CPickleSerializer

    began = time.process_time()
    source = LanceDataSource({"path": str(large)})
    partitions = source.reader(source.schema()).partitions()
    data = [CPickleSerializer().dumps(one) for one in partitions]
    seconds = time.process_time() - began
    assert len(data) == FRAGMENTS
    assert max(map(len, data)) < 1024
    assert seconds < 10


def test_a_small_table_of_the_format_is_broadcast_once_its_size_is_known(
    spark: Any, tmp_path: Path
) -> None:
    table = make_table(tmp_path / "t.lance")
    left, right = (spark.read.format("lancefs").load(table) for _ in range(2))
    joined = left.join(right, "id")
    chosen = joined._jdf.queryExecution().executedPlan()
    assert "SortMergeJoin" in chosen.toString()  # Python sources cannot tell their size
    assert len(joined.collect()) == 4000
    final = chosen.toString().partition("Initial Plan")[0]
    assert "BroadcastHashJoin" in final
    assert "SortMergeJoin" not in final
