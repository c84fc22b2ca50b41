"""What scans have seen of columns lets the next ones pass over rows, never over wrong ones."""

from __future__ import annotations

import os
import shutil
import threading
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

import lancefs
from lancefs.errors import LanceError
from lancefs.scan import fragment_ranges, value_ranges
from lancefs.scan.stats import ScanStats
from lancefs.table import fragment_readers
from lancefs.table.fragment_run import FragmentRun

ROWS, ZONE = 1000, 16


@pytest.fixture(params=["few", "many"], autouse=True)
def _small_zones(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zones of a few rows; and versions that pass for long ones, which are read without readers."""
    monkeypatch.setattr(value_ranges, "ZONE_ROWS", ZONE)
    monkeypatch.setattr(fragment_ranges, "_TINY_ROWS", 0)
    if request.param == "many":
        monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)


def write(path: Path, rows: pa.Table, **options: Any) -> str:
    lance.write_dataset(rows, str(path), **options)
    return str(path)


def numbers(count: int = ROWS) -> pa.Table:
    names = [f"name {i}" for i in range(count)]
    return pa.table({"n": range(count), "other": [i % 7 for i in range(count)], "s": names})


def read(table: str, filter: Any, **options: Any) -> tuple[pa.Table, ScanStats]:
    scanner = lancefs.open(table).scanner(filter=filter, **options)
    return scanner.to_table(), scanner.stats


def check(table: str, filter: Any, columns: list[str] | None = None) -> ScanStats:
    """Read twice; the second read gives the same rows. Return what it did."""
    fragment_ranges.forget()
    first, stats = read(table, filter, columns=columns)
    assert stats.rows_skipped == 0
    second, stats = read(table, filter, columns=columns)
    assert second.equals(first)
    batches = lancefs.open(table).to_batches(filter=filter, batch_size=10, columns=columns)
    assert (
        pa.Table.from_batches(batches, first.schema).combine_chunks().equals(first.combine_chunks())
    )
    assert lancefs.open(table).count_rows(filter=filter) == len(first)
    return stats


@pytest.mark.parametrize(
    ("filter", "most"),
    [
        ("n between 100 and 110 or n between 700 and 710", 3),
        ("n < 3 or n = 500 or n > 990 or n = 77 or n between 300 and 302", 6),
        ("(n < 3 and s like '%1%') or (n > 990 and other = 3)", 3),
        ("(n < 30 or n > 970) and (n > 20 and n < 25 or n = 980)", 2),
        ("n between 200 and 100 or n = 5000 or n > 10 and n < 5", 0),
        ("n < 3 or other = 4", ROWS),
        ("n < 3 or not (n < 990)", ROWS),
        ("n is null or n = 5", ROWS),
    ],
)
def test_rows_are_passed_over_that_are_in_none_of_several_ranges(
    tmp_path: Path, filter: str, most: int
) -> None:
    table = write(tmp_path / "t", numbers(), max_rows_per_file=400)
    check(table, filter)
    found, stats = read(table, filter)
    assert found.equals(lance.dataset(table).to_table(filter=filter))
    assert stats.rows_skipped >= ROWS - most * ZONE


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_a_second_read_passes_over_rows_that_the_first_one_ruled_out(
    tmp_path: Path, version: str
) -> None:
    table = write(tmp_path / "t", numbers(), data_storage_version=version, max_rows_per_file=400)
    stats = check(table, "n >= 500 and n < 510")
    assert stats.rows_skipped >= ROWS - 2 * ZONE
    assert stats.fragments_skipped == 2
    assert read(table, "n = 5000")[1].rows_decoded == 0
    # Another filter on the column uses what was seen, and one with other conditions too.
    assert read(table, "n < 5")[1].rows_decoded <= ZONE
    found, stats = read(table, "n between 20 and 40 and s like '%3%' and other = 3")
    assert found["n"].to_pylist() == [31, 38]
    assert stats.rows_decoded <= 3 * ZONE


def test_rows_between_the_members_of_a_list_are_passed_over(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers())
    stats = check(table, "n in (3, 500, 999)")
    assert stats.rows_skipped >= ROWS - 3 * ZONE
    assert check(table, "n in (-5, 5000)").rows_decoded == 0
    assert check(table, "n in (3, 500) and n > 400").rows_decoded <= ZONE
    assert check(table, "n in (3, 4) or s = 'name 7'").rows_skipped == 0
    assert check(table, "not n in (3, 500)").rows_skipped == 0


def test_a_filter_that_may_hold_elsewhere_reads_all_rows(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers())
    read(table, "n < 0")
    for filter in ("n < 5 or s = 'name 700'", "not (n > 5)", "n is null", "s = 'name 1'"):
        found, stats = read(table, filter)
        assert found.equals(lance.dataset(table).to_table(filter=filter)), filter
        assert stats.rows_skipped == 0 or filter == "not (n > 5)"


def test_nulls_hold_no_range_and_pass_no_comparison(tmp_path: Path) -> None:
    values = [None] * 100 + list(range(100)) + [None, 5] * 50 + [None] * 7
    table = write(tmp_path / "t", pa.table({"n": pa.array(values, pa.int32())}))
    stats = check(table, "n = 5")
    assert stats.rows_skipped >= 170
    assert read(table, "n = 5")[0].num_rows == 51
    assert read(table, "n is null")[0].num_rows == values.count(None)
    assert read(table, "n is not null")[0].num_rows == 150


TYPES = {
    pa.int8(): [-128, 0, 127],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.int64(): [-(2**63), 0, 2**63 - 1],
    pa.date32(): [date(1, 1, 1), date(2020, 2, 3), date(9999, 12, 31)],
    pa.timestamp("us"): [datetime(1, 1, 1), datetime(2020, 1, 1), datetime(9999, 1, 1)],
    pa.timestamp("ms", "UTC"): [datetime(1, 1, 1), datetime(2020, 1, 1), datetime(9999, 1, 1)],
    pa.time64("us"): [time(0), time(12), time(23, 59)],
    pa.duration("s"): [timedelta(-5), timedelta(0), timedelta(5)],
    pa.float32(): [float("-inf"), -0.0, 0.5],
    pa.float64(): [-1e300, 5e-324, float("inf")],
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_kind_of_stored_number_has_ranges(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.array([value for value in TYPES[kind] for _ in range(2 * ZONE)], kind)
    table = write(tmp_path / "t", pa.table({"a": column, "i": range(len(column))}))
    for position, value in enumerate(TYPES[kind]):
        stats = check(table, pc.field("a") == pa.scalar(value, kind))
        assert stats.rows_skipped == 4 * ZONE
        found, _ = read(table, pc.field("a") == pa.scalar(value, kind))
        assert found["i"].to_pylist() == list(range(2 * ZONE * position, 2 * ZONE * (position + 1)))
    below = pc.field("a") < pa.scalar(TYPES[kind][0], kind)
    assert read(table, below)[1].rows_decoded == 0


def test_other_columns_have_none(tmp_path: Path) -> None:
    halves = pa.array([1.0, 2.0] * 40, pa.float16())
    rows = pa.table({"h": halves, "b": [True, False] * 40, "s": [b"a", b"b"] * 40})
    table = write(tmp_path / "t", rows)
    for filter in ("b", pc.field("s") == b"c", pc.field("h").cast(pa.float32()) < 0):
        assert check(table, filter).rows_skipped == 0


FLOATS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5, -1.5, 1e-40, 3.4e38, None]


@given(
    values=st.lists(st.sampled_from(FLOATS), min_size=1, max_size=4),
    kind=st.sampled_from([pa.float32(), pa.float64()]),
    operator=st.sampled_from(["<", "<=", "=", ">=", ">", "!="]),
    bound=st.sampled_from(["0", "-0.0", "1.5", "1e-40", "0.1", "7", "-3.5e38", "9007199254740993"]),
)
def test_floats_are_passed_over_by_their_order(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[float | None],
    kind: pa.DataType,
    operator: str,
    bound: str,
) -> None:
    column = pa.array([value for value in values for _ in range(ZONE)], kind)
    table = write(
        tmp_path_factory.mktemp("f") / "t", pa.table({"f": column, "i": range(len(column))})
    )
    filters = [f"f {operator} {bound}", f"f {operator} {bound} and f < 2.5"]
    compared = duckdb_comparison(operator, float(bound), kind)
    for filter in (*filters, compared):
        check(table, filter, ["i"])
    for filter in filters:
        expected = lance.dataset(table).to_table(columns=["i"], filter=filter)
        assert read(table, filter, columns=["i"])[0] == expected, filter


def duckdb_comparison(operator: str, bound: float, kind: pa.DataType) -> pc.Expression:
    """Return a comparison as DuckDB makes it, for which NaN is greater than all numbers."""
    field, constant = pc.field("f"), pa.scalar(bound, kind)
    found = {
        "<": field < constant,
        "<=": field <= constant,
        "=": field == constant,
        ">=": (field >= constant) | (field != field),
        ">": (field > constant) | pc.is_nan(field),
        "!=": field != constant,
    }
    return found[operator]


def test_numbers_beside_nan_are_passed_over(tmp_path: Path) -> None:
    floats = [float(n) for n in range(10 * ZONE)] + [float("nan")] * ZONE + [1.0] * ZONE
    table = write(tmp_path / "t", pa.table({"f": floats, "i": range(len(floats))}))
    assert check(table, "f < 3").rows_skipped >= 9 * ZONE
    above = (pc.field("f") > 1000.0) | (pc.field("f") != pc.field("f"))
    assert check(table, above, ["i"]).rows_skipped == 11 * ZONE
    assert read(table, above)[0].num_rows == ZONE


def test_deleted_rows_stay_deleted_and_versions_apart(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers())
    read(table, "n < 0")
    dataset = lance.dataset(table)
    dataset.delete("n between 100 and 105 or n = 0")
    dataset.update({"other": "100"}, where="n = 500")
    dataset.merge_insert("n").when_matched_update_all().when_not_matched_insert_all().execute(
        pa.table({"n": [7, 2000], "other": [200, 200], "s": ["new", "new"]})
    )
    for version in range(1, 5):
        for filter in ("n between 95 and 110", "other >= 100", "n = 7", "n >= 990", "n = 0"):
            for _ in range(2):
                found = lancefs.open(table, version=version).to_table(filter=filter)
                expected = lance.dataset(table, version=version).to_table(filter=filter)
                assert found.equals(expected), (version, filter)


def test_columns_that_are_added_dropped_and_cast_keep_their_own_ranges(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers())
    read(table, "n < 0")
    dataset = lance.dataset(table)
    dataset.add_columns({"twice": "n * 2"})
    dataset.alter_columns({"path": "n", "data_type": pa.int32(), "name": "m"})
    dataset.drop_columns(["other"])
    dataset.add_columns({"other": "-m"})
    for filter in ("twice = 50", "m = 50", "other = -50", "other > -3 and m < 5"):
        check(table, filter)
        assert read(table, filter)[0].equals(lance.dataset(table).to_table(filter=filter))


def test_many_small_fragments_are_passed_over_unopened(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=5)
    stats = check(table, "n = 77")
    assert (stats.fragments, stats.fragments_skipped) == (1, 39)
    assert stats.rows_decoded == 5
    ordered = [row for batch in lancefs.open(table).to_batches(filter="n >= 0", batch_size=7)
               for row in batch["n"].to_pylist()]  # fmt: skip
    assert ordered == list(range(200))
    # Of a table that grows, what is new is read, in order.
    lance.write_dataset(numbers(30), table, mode="append", max_rows_per_file=5)
    found, stats = read(table, "n >= 20 and n < 28")
    assert found["n"].to_pylist() == [*range(20, 28), *range(20, 28)]
    assert stats.fragments_skipped == 38


def test_a_small_fragment_whose_file_was_replaced_is_read_anew(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=5)
    check(table, "n = 77")
    (fragment,) = (
        one for one in lance.dataset(table).get_fragments() if one.to_table()["n"][0].as_py() == 75
    )
    file = Path(table, "data", fragment.data_files()[0].path)
    others = numbers(80).slice(75).set_column(0, "n", pa.array(range(500, 505)))
    (other,) = Path(write(tmp_path / "u", others), "data").iterdir()
    assert file.stat().st_size == other.stat().st_size
    shutil.copy(other, file)
    assert read(table, "n = 77")[0].num_rows == 0
    found, stats = read(table, "n >= 500")
    assert found.num_rows == 5
    assert stats.fragments_skipped == 39


def test_fragments_all_of_whose_ranges_are_known_are_read_in_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=5)
    dataset = lancefs.open(table)
    runs: list[int] = []
    read_run = FragmentRun.read

    def watched(self: FragmentRun, *arguments: Any) -> list[pa.Array]:
        runs.append(len(self.fragment_ids))
        return read_run(self, *arguments)

    monkeypatch.setattr(FragmentRun, "read", watched)
    for filter, fragments in (("n >= 0", 40), ("n >= 101 and n < 160", 12), ("n < 0", 0)):
        expected = lance.dataset(table).to_table(filter=filter)
        for _ in range(2):
            runs.clear()
            scanner = dataset.scanner(["n"], filter=filter)
            assert scanner.to_table().equals(expected.select(["n"]))
            assert scanner.stats.fragments == fragments
            assert scanner.stats.fragments_skipped in (0, 40 - fragments)
        assert max(runs, default=0) == max(fragments - 1, 0)  # the first one is read alone


def test_fragments_are_passed_over_as_a_scan_comes_to_them(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=5)
    check(table, "n >= 0")
    scanner = lancefs.open(table).scanner(filter="n >= 52", limit=3, batch_size=2)
    assert scanner.to_table()["n"].to_pylist() == [52, 53, 54]
    assert (scanner.stats.fragments_skipped, scanner.stats.rows_skipped) == (10, 50)


def test_small_fragments_of_which_only_some_were_seen(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=5)
    read(table, "n >= 0", limit=12)
    assert read(table, "n = 150 or n = 3")[0]["n"].to_pylist() == [3, 150]
    read(table, "other = 3 and n < 20", limit=12)
    for _ in range(2):
        found, stats = read(table, "n in (7, 60, 199) and other = 4")
        assert found["n"].to_pylist() == [60]
    assert stats.fragments_skipped == 37


def test_limits_and_offsets_count_rows_that_pass(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(), max_rows_per_file=300)
    for filter in ("n >= 310", "other = 3 and n < 900"):
        whole = lance.dataset(table).to_table(filter=filter)["n"].to_pylist()
        for _ in range(2):
            for offset, limit in ((0, 3), (5, 40), (290, 20), (100, None)):
                found, _ = read(table, filter, offset=offset, limit=limit)
                end = None if limit is None else offset + limit
                assert found["n"].to_pylist() == whole[offset:end]


def test_rows_that_a_short_read_did_not_come_to_are_read_later(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(), max_rows_per_file=100)
    for start in (0, 950, 350):
        read(table, f"n >= {start}", limit=2)
    assert read(table, "n < 0 or n >= 0")[0].num_rows == ROWS
    assert read(table, "n >= 0")[0].num_rows == ROWS
    assert read(table, "n = 444")[0]["n"].to_pylist() == [444]


def test_a_file_that_another_one_replaced_is_read_anew(tmp_path: Path) -> None:
    """The names of data files are unique, but a folder may be restored from elsewhere."""
    table = write(tmp_path / "t", numbers())
    check(table, "n = 5")
    other = write(tmp_path / "u", pa.table({"n": range(ROWS, 0, -1)}))
    shutil.rmtree(table)
    shutil.copytree(other, table)
    (mine,) = Path(table, "data").iterdir()
    assert read(table, "n = 5")[0]["n"].to_pylist() == [5]
    # The same name, another content.
    third = write(tmp_path / "v", pa.table({"n": [5] * ROWS}))
    (its,) = Path(third, "data").iterdir()
    os.replace(its, mine)
    try:
        found = read(table, "n = 5")[0].num_rows
    except LanceError:
        pass  # the size may not be that of the manifest
    else:
        assert found == ROWS


def test_a_remote_table_needs_fewer_requests(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(), max_rows_per_file=100)
    memory = MemoryFileSystem()
    url = f"memory://value_ranges/{tmp_path.name}/t.lance"
    memory.put(table, url, recursive=True)
    _, first = read(url, "n = 123")
    found, second = read(url, "n = 123")
    assert found["n"].to_pylist() == [123]
    assert second.fragments_skipped == 9
    assert second.requests < first.requests


def test_what_is_kept_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=10)
    known = value_ranges._known.zones
    monkeypatch.setattr(known, "budget", 5 * 1000)
    check(table, "n = 5 and other = 5")
    assert 0 < len(known.values()) < 20
    assert sum(zones.cost for zones in known.values()) <= 5000
    assert read(table, "n = 5")[0]["n"].to_pylist() == [5]


@pytest.mark.parametrize(("limit", "value"), [("_TINY_ROWS", 10), ("_MOST", 19)])
def test_ranges_that_would_save_nothing_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(fragment_ranges, limit, value)
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=10)
    changes = value_ranges.count_changes()
    for _ in range(2):
        found, stats = read(table, "n > 157 and other = 5")
        assert found["n"].to_pylist() == [159, 166, 173, 180, 187, 194]
        assert stats.fragments_skipped == 0
    assert value_ranges.count_changes() == changes


def test_the_ranges_of_new_fragments_are_kept(tmp_path: Path) -> None:
    table = write(tmp_path / "t", numbers(200), max_rows_per_file=10)
    check(table, "n = 5")
    lance.write_dataset(numbers(40).slice(20), table, mode="append", max_rows_per_file=10)
    assert read(table, "n = 25")[0]["n"].to_pylist() == [25, 25]
    found, stats = read(table, "n = 35")
    assert found["n"].to_pylist() == [35, 35]
    assert stats.fragments_skipped == 20


def test_threads_that_read_at_once_agree(tmp_path: Path, threaded: None) -> None:
    table = write(tmp_path / "t", numbers(), max_rows_per_file=150)
    wrong: list[object] = []

    def work(start: int) -> None:
        for low in range(start, ROWS, 97):
            found = read(table, f"n >= {low} and n < {low + 30}")[0]["n"].to_pylist()
            if found != list(range(low, min(low + 30, ROWS))):
                wrong.append((low, found))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.fixture(scope="module", params=[(6, 23), (40, 1)], ids=["fragments", "small fragments"])
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with nulls, deleted rows and fragments of many lengths."""
    path = tmp_path_factory.mktemp("drawn") / "t"
    parts, step = request.param
    for part in range(parts):
        rows = part * step
        values = [None if i % 11 == part % 5 else (i * 37 + part * 13) % 200 for i in range(rows)]
        rows = pa.table(
            {"a": pa.array(values, pa.int16()), "b": pa.array(range(len(values)), pa.uint32())}
        )
        lance.write_dataset(rows, str(path), mode="append" if part else "create")
    lance.dataset(str(path)).delete("b % 5 = 2")
    return str(path)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from(["<", "<=", "=", ">=", ">", "in"]),
            st.lists(st.integers(0, 210), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_order_of_filters_gives_the_rows_of_each(
    drawn: str, filters: list[tuple[str, str, list[int]]]
) -> None:
    texts = [
        f"{column} in ({', '.join(map(str, values))})"
        if operator == "in"
        else f"{column} {operator} {values[0]}"
        for column, operator, values in filters
    ]
    either = [f"{text} or ({texts[0]} and {texts[-1]})" for text in texts]
    for text in (*texts, " and ".join(texts), *either):
        found = lancefs.open(drawn).to_table(filter=text)
        assert found.equals(lance.dataset(drawn).to_table(filter=text)), text
