"""The data pipeline: versions written as files."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fsspec
import fsspec.implementations.memory
import lance
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from spark_support import append, environment, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

import lancefs
import lancefs.spark
from lancefs.errors import (
    ColumnNotFound,
    LanceError,
    NotALanceTable,
    ReadFailed,
    RefNotFound,
    UnsupportedFeature,
)
from lancefs.spark.folders import find_tables
from lancefs.spark.pipeline.destination import Settings
from lancefs.spark.pipeline.output_files import Files
from lancefs.spark.pipeline.writers import write_parts

KILLS = 10


def same_rows(destination: Path, path: str, **ref: Any) -> None:
    """Assert that the destination holds exactly the rows of a version."""
    expected = lancefs.open(path, **ref).to_table()
    got = lancefs.spark.open_materialized(str(destination)).dataset().to_table()
    assert got.select(expected.column_names).sort_by("id").equals(expected.sort_by("id"))


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_a_version_becomes_files(spark: Any, tmp_path: Path, format: str) -> None:
    path = make_table(tmp_path / "t.lance")
    append(path, 4000, 10)
    out = tmp_path / "out"
    done = lancefs.spark.materialize(spark, path, str(out), ref=1, format=format)
    assert (done.version, done.rows, len(done.paths)) == (1, 4000, 1)
    same_rows(out, path, version=1)
    # The order too, as the files come in the table's order.
    got = done.dataset().to_table()
    assert got.equals(lancefs.open(path, version=1).to_table())
    assert all(Path(url).exists() for url in done.urls)


def test_columns_become_directories(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance")
    out = tmp_path / "out"
    done = lancefs.spark.materialize(spark, path, str(out), partition_by=["city"])
    same_rows(out, path)
    directories = {entry.name for entry in (out / "data").iterdir()}
    assert directories == {
        "city=Graz", "city=Porto", "city=Gent", "city=__HIVE_DEFAULT_PARTITION__",
    }  # fmt: skip
    assert done.to_spark(spark).where("city = 'Graz'").count() == 1000


def test_any_value_may_name_a_directory(spark: Any, tmp_path: Path) -> None:
    count = 60
    names = ["a b", "a/b", "a=b", "50%", "é", ".", "[x]*", None]
    table = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "name": pa.array([names[i % len(names)] for i in range(count)]),
            "day": pa.array([i % 3 if i % 5 else None for i in range(count)], pa.date32()),
            "flag": pa.array([i % 2 == 0 for i in range(count)]),
            "small": pa.array([-(i % 2) for i in range(count)], pa.int8()),
        }
    )
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path, data_storage_version="2.1")
    by = ["name", "day", "flag", "small"]
    done = lancefs.spark.materialize(spark, path, str(tmp_path / "out"), partition_by=by)
    same_rows(tmp_path / "out", path)
    assert done.to_spark(spark).where("name = 'a/b' AND day IS NULL").count() == sum(
        row["name"] == "a/b" and row["day"] is None for row in table.to_pylist()
    )
    lance.write_dataset(table.set_column(1, "name", [[""] * count]), path, mode="overwrite")
    with pytest.raises(UnsupportedFeature, match="name holds an empty text"):
        lancefs.spark.materialize(spark, path, str(tmp_path / "other"), partition_by=["name"])


def test_names_of_directories_have_the_types_of_their_columns(spark: Any, tmp_path: Path) -> None:
    """Spark would guess them from the names."""
    table = pa.table({"id": [1, 2, 3], "code": ["01", "1", None], "flag": [True, False, None]})
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path)
    out = str(tmp_path / "out")
    done = lancefs.spark.materialize(spark, path, out, partition_by=["code", "flag"])
    found = done.to_spark(spark).select("id", "code", "flag").orderBy("id")
    assert [row.asDict() for row in found.collect()] == table.to_pylist()
    named = table.set_column(1, "code", [["__HIVE_DEFAULT_PARTITION__"] * 3])
    lance.write_dataset(named, path, mode="overwrite")
    with pytest.raises(UnsupportedFeature, match="code holds the text __HIVE_DEFAULT_PARTITION__"):
        lancefs.spark.materialize(spark, path, out, partition_by=["code"])


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    with files.create("data/a") as file:
        file.write(b"half")
        assert files.read("data/a") is None
        file.write(b" and half")
    assert files.read("data/a") == b"half and half"
    broken = files.create("data/b")
    broken.__enter__().write(b"half")
    assert not broken.__exit__(OSError, OSError("disk full"), None)
    assert {name: found.size for name, found in files.names().items()} == {"data/a": 13}
    assert files.found("data/a") == files.names()["data/a"]


def test_a_destination_may_be_any_store() -> None:
    files = Files("memory://lancefs-[test]")
    with files.create("data/a") as file:
        file.write(b"whole")
    files.write("c", b"once")
    files.write("c", b"twice")
    assert {name: found.size for name, found in files.names().items()} == {"data/a": 5, "c": 5}
    assert sorted(files.read_all(["c", "data/a", "gone"])) == [b"twice", b"whole"]
    files.remove(["c", "data/a", "gone"])
    assert files.names() == {}


def test_only_what_changed_is_written_again(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = make_table(tmp_path / "t.lance")
    out = str(tmp_path / "out")

    def refresh() -> tuple[set[str], set[str]]:
        """What was kept and what was written."""
        before = set(lancefs.spark.open_materialized(out).paths)
        caplog.clear()
        with caplog.at_level(logging.INFO, "lancefs.spark"):
            done = lancefs.spark.materialize(spark, path, out, incremental=True, target_file_size=1)
        now = set(done.paths)
        same_rows(Path(out), path)
        return before & now, now - before

    lancefs.spark.materialize(spark, path, out, target_file_size=1)
    assert [len(found) for found in refresh()] == [4, 0]
    assert "4 not changed since version 1, kept" in caplog.text
    append(path, 4000, 10)
    assert [len(found) for found in refresh()] == [4, 1]
    lance.dataset(path).delete("id = 1500")
    assert [len(found) for found in refresh()] == [4, 1]
    assert "1 changed" in caplog.text
    lance.dataset(path).create_scalar_index("id", "BTREE")
    assert [len(found) for found in refresh()] == [5, 0]
    lance.dataset(path).add_columns({"twice": "price * 2"})
    assert [len(found) for found in refresh()] == [0, 5]
    # Readers find columns by name, so that no file may have another one for a column, or more.
    lance.dataset(path).alter_columns({"path": "twice", "name": "double"})
    assert [len(found) for found in refresh()] == [0, 5]
    assert "the columns have changed since version 5: all is written" in caplog.text
    lance.dataset(path).drop_columns(["double"])
    assert [len(found) for found in refresh()] == [0, 5]
    urls = lancefs.spark.open_materialized(out).urls
    assert all(pq.read_schema(url).names == ["id", "city", "size", "price"] for url in urls)


def test_small_fragments_share_a_file(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file is kept as long as none of its fragments changes."""
    path = make_table(tmp_path / "t.lance", 15_000, per_file=50)
    out = str(tmp_path / "out")
    first = lancefs.spark.materialize(spark, path, out)
    assert len(first.paths) == 1
    same_rows(Path(out), path)
    append(path, 15_000, 500)
    second = lancefs.spark.materialize(spark, path, out, incremental=True)
    assert (len(second.paths), second.paths[0]) == (2, first.paths[0])
    lance.dataset(path).delete("id = 15010")
    with caplog.at_level(logging.INFO, "lancefs.spark"):
        third = lancefs.spark.materialize(spark, path, out, incremental=True)
    assert (len(third.paths), third.paths[0]) == (2, first.paths[0])
    assert third.paths[1] != second.paths[1]
    assert "1 changed" in caplog.text
    same_rows(Path(out), path)
    assert third.dataset().to_table()["id"].equals(lancefs.open(path).to_table()["id"])


def test_a_large_fragment_becomes_several_files(spark: Any, tmp_path: Path) -> None:
    count = 600_000
    numbers = np.random.default_rng(3).integers(0, 2**60, count)
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": numbers}), path, data_storage_version="2.1")
    done = lancefs.spark.materialize(spark, path, str(tmp_path / "out"), target_file_size=2**20)
    assert len(done.paths) == 3  # a row group each
    assert done.dataset().to_table().equals(lancefs.open(path).to_table())


def test_all_tables_of_a_folder_become_files(spark: Any, tmp_path: Path) -> None:
    lake, out = tmp_path / "lake", tmp_path / "out"
    for name in ("one", "two", "odd"):
        make_table(lake / f"{name}.lance", 20)
    append(str(lake / "two.lance"), 20, 5)
    next((lake / "odd.lance" / "data").iterdir()).unlink()
    with pytest.raises(LanceError, match=r"^1 of 3 tables were not written: odd \(.*is gone"):
        lancefs.spark.materialize_all(spark, str(lake), str(out))
    for name in ("one", "two"):
        same_rows(out / name, str(lake / f"{name}.lance"))
    done = lancefs.spark.materialize_all(
        spark, f"{lake}/[ot][nw]*.lance", f"{out}/", format="arrow"
    )
    assert {name: found.rows for name, found in done.items()} == {"one": 20, "two": 25}
    assert {path.suffix for path in (out / "two" / "data").iterdir()} == {".parquet", ".arrow"}


def test_tables_are_found_by_folder_and_by_pattern(tmp_path: Path) -> None:
    fs = fsspec.filesystem("memory")
    for name in ("eu/b.lance", "eu/a.lance", "us/a.lance", "us/notes", "us/deep/c.lance"):
        fs.pipe(f"/lake-28/{name}/_versions/1.manifest", b"")
    assert find_tables("memory://lake-28/eu/", {}) == {
        "a": "memory:///lake-28/eu/a.lance", "b": "memory:///lake-28/eu/b.lance",
    }  # fmt: skip
    assert list(find_tables("memory://lake-28/*/a.lance", {})) == ["eu/a", "us/a"]
    assert list(find_tables("memory://lake-28/us/**", {})) == ["a", "deep/c"]
    with pytest.raises(NotALanceTable, match=r"lake-28/us/b\*: no table matches"):
        find_tables("memory://lake-28/us/b*", {})
    with pytest.raises(NotALanceTable, match=r"notes: no table is in it"):
        find_tables("memory://lake-28/us/notes", {})
    (tmp_path / "[x]" / "t.lance").mkdir(parents=True)
    found = find_tables(str(tmp_path / "[x]"), {})
    assert found == {"t": str(tmp_path / "[x]" / "t.lance")}


class Unreachable(fsspec.implementations.memory.MemoryFileSystem):
    """A store whose client fails in its own way, which is no `OSError`."""

    protocol = "unreachable"

    def __init__(self, bucket: str = "") -> None:
        super().__init__()

    def ls(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("nobody answers")

    cat_file = info = ls


@pytest.mark.parametrize("place", ["unreachable://lake", "unreachable://lake/*/a.lance"])
def test_a_store_that_cannot_be_reached_is_named(place: str) -> None:
    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    with pytest.raises(ReadFailed, match=r"^unreachable://.*nobody answers"):
        find_tables(place, {})
    with pytest.raises(ReadFailed, match=r"^unreachable://.*nobody answers"):
        Files(place).read("_lancefs.json")
    for open_place in (find_tables, Files):
        with pytest.raises(ValueError, match=r"storage options do not fit the store: .*'bukket'"):
            open_place(place, {"bukket": "b"})


def test_a_destination_in_a_bucket_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError("The specified bucket does not exist")  # as s3fs says it

    files = Files("memory://no-such-lake/out")
    monkeypatch.setattr(type(files.fs), "find", find)
    with pytest.raises(ReadFailed, match="memory://no-such-lake/out: The specified bucket"):
        files.names()


def json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_file_says_where_its_rows_came_from(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 4000, per_file=1000)
    lance.dataset(path).delete("id < 10")
    out = tmp_path / "out"
    lancefs.spark.materialize(spark, path, str(out), target_file_size=1)
    append(path, 4000, 5)
    lancefs.spark.materialize(spark, path, str(out), target_file_size=1, incremental=True)
    lines = json_lines(out / "_lineage.jsonl")
    assert [line["fragments"] for line in lines] == [[0], [1], [2], [3], [4]]
    assert {(line["source"], line["version"], line["branch"]) for line in lines} == {
        (path, 3, None)
    }
    whole = lancefs.open(path, version=3).to_table()
    for line in lines:
        expected = whole.slice(line["first_row"], line["rows"])
        assert pq.read_table(out / line["file"]).equals(expected)
    lancefs.spark.materialize(spark, path, str(out), partition_by=["city"])
    lines = json_lines(out / "_lineage.jsonl")
    assert [line["first_row"] for line in lines] == [None] * 4
    assert sum(line["rows"] for line in lines) == 3995
    assert {tuple(line["fragments"]) for line in lines} == {(0, 1, 2, 3, 4)}


def test_metrics_are_lines_of_json(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 4000)
    out, metrics = tmp_path / "out", tmp_path / "metrics.jsonl"
    how: dict[str, Any] = {"target_file_size": 1, "incremental": True, "metrics": metrics}
    done = lancefs.spark.materialize(spark, path, str(out), **how)
    append(path, 4000, 5)
    lancefs.spark.materialize(spark, path, str(out), **how)
    lancefs.spark.verify(spark, path, metrics=str(metrics))
    lines = json_lines(metrics)
    events = [(line["job"], line["event"], line["version"], line["rows"]) for line in lines]
    assert events == [
        *[("materialize", "task", 1, 1000)] * 4, ("materialize", "run", 1, 4000),
        ("materialize", "task", 2, 5), ("materialize", "run", 2, 5), ("verify", "run", 2, 4005),
    ]  # fmt: skip
    assert lines[4]["bytes"] == sum(Path(url).stat().st_size for url in done.urls)
    assert (lines[6]["files"], lines[6]["kept_files"], lines[7]["problems"]) == (1, 4, 0)
    assert all(line["source"] == path and line["seconds"] >= 0 for line in lines)
    assert all(line["host"] for line in lines if line["event"] == "task")
    with pytest.raises(LanceError, match=r"none/m\.jsonl: metrics cannot be written"):
        lancefs.spark.verify(spark, path, metrics=tmp_path / "none" / "m.jsonl")


def test_many_directories_need_few_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More directories than files that may be open: files are closed, and others begun."""
    open_now: set[str] = set()
    most = 0

    def create(self: Files, path: str) -> Any:
        nonlocal most
        open_now.add(path)
        most = max(most, len(open_now))
        return opened(self, path)

    def found(self: Files, path: str) -> Any:
        open_now.discard(path)
        return closed(self, path)

    opened, closed = Files.create, Files.found
    monkeypatch.setattr(Files, "create", create)
    monkeypatch.setattr(Files, "found", found)
    table = pa.table({"id": range(2000), "key": [i % 250 for i in range(2000)]})
    batches = iter(table.to_batches(500))
    how = Settings(partition_by=("key",))
    parts = write_parts(Files(str(tmp_path)), "x", batches, table.schema, how)
    assert (most, open_now) == (100, set())
    assert {part.path.split("/")[1] for part in parts} == {f"key={i}" for i in range(250)}
    assert sum(part.rows for part in parts) == 2000
    again = pads.dataset(tmp_path / "data", partitioning="hive").to_table()
    assert again.sort_by("id")["id"].to_pylist() == list(range(2000))


def test_output_is_read_back_and_compared(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 4000)
    out = tmp_path / "out"
    done = lancefs.spark.materialize(spark, path, str(out), partition_by=["city"])
    report = lancefs.spark.verify_output(spark, str(out))
    assert report.is_good, report
    assert (report.files, report.rows) == (4, 4000)
    chance = random.Random(4)
    for relative in done.paths[:3]:
        file = out / relative
        data = bytearray(file.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
    (out / done.paths[3]).unlink()
    report = lancefs.spark.verify_output(spark, str(out))
    assert {problem.path for problem in report.problems} == set(done.paths)
    messages = [problem.message for problem in report.problems]
    assert sorted(messages) == ["it has other bytes than were written"] * 3 + ["it is gone"]
    assert "4 problems" in str(report)


def test_what_another_release_wrote_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_lancefs.json").write_text('{"lancefs": 1}')
    with pytest.raises(UnsupportedFeature, match="another release of lancefs wrote it"):
        lancefs.spark.open_materialized(str(tmp_path))


def test_a_changed_file_is_not_kept(spark: Any, tmp_path: Path) -> None:
    """By its size or time; and by its bytes, where these are to be read."""
    path = make_table(tmp_path / "t.lance")
    out = tmp_path / "out"

    def refresh(**options: Any) -> list[str]:
        return lancefs.spark.materialize(
            spark, path, str(out), incremental=True, target_file_size=1, **options
        ).paths

    first = refresh()
    longer = out / first[0]
    longer.write_bytes(longer.read_bytes() + b"x")
    older = out / first[1]
    os.utime(older, (1e9, 1e9))
    second = refresh()
    assert [a == b for a, b in zip(first, second, strict=True)] == [False, False, True, True]
    flipped = out / second[2]
    times = flipped.stat().st_atime, flipped.stat().st_mtime
    data = bytearray(flipped.read_bytes())
    data[100] ^= 1
    flipped.write_bytes(data)
    os.utime(flipped, times)
    assert refresh() == second
    third = refresh(check=True)
    assert [a == b for a, b in zip(second, third, strict=True)] == [True, True, False, True]
    same_rows(out, path)


def test_readers_of_the_version_before_are_not_disturbed(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance")
    out = str(tmp_path / "out")
    old = lancefs.spark.materialize(spark, path, out)
    expected = lancefs.open(path).to_table()
    lance.dataset(path).delete("id % 2 = 0")
    new = lancefs.spark.materialize(spark, path, out, incremental=True)
    assert old.dataset().to_table().equals(expected)
    assert new.dataset().to_table().num_rows == 2000
    lance.dataset(path).delete("id % 3 = 0")
    lancefs.spark.materialize(spark, path, out, incremental=True)
    assert not any(Path(url).exists() for url in old.urls)


def test_types_can_be_those_of_spark(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    table = pa.table(
        {
            "h": pa.array([1.5, None], pa.float16()),
            "u": pa.array([1, 2], pa.uint64()),
            "took": pa.array([-5, None], pa.duration("s")),
            "laps": pa.array(
                [[{"took": 7}], None], pa.list_(pa.struct({"took": pa.duration("ms")}))
            ),
        }
    )
    lance.write_dataset(table, path, data_storage_version="2.1")
    done = lancefs.spark.materialize(spark, path, str(tmp_path / "out"), types="spark")
    frame, own = done.to_spark(spark), spark.read.format("lancefs").load(path)
    assert frame.dtypes == own.dtypes
    assert dict(frame.dtypes)["took"] == "interval day to second"  # of which Parquet knows nothing
    assert frame.collect() == own.collect()


def test_a_table_without_rows_is_materialized_too(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 10)
    lance.dataset(path).delete("true")
    done = lancefs.spark.materialize(spark, path, str(tmp_path / "out"))
    assert done.dataset().to_table().num_rows == 0


def test_wrong_arguments_are_refused(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    out = str(tmp_path / "out")
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ValueError, "one of parquet, arrow", {"format": "csv"}),
        (ValueError, "target_file_size is 0", {"target_file_size": 0}),
        (RefNotFound, "there is no version 9", {"ref": 9}),
        (ColumnNotFound, "did you mean", {"columns": ["pryce"]}),
        (LanceError, "no column 'town'", {"partition_by": ["town"]}),
        (TypeError, "a list of names was expected", {"partition_by": "city"}),
        (TypeError, "a list of names was expected", {"columns": "city"}),
        (UnsupportedFeature, "cannot name directories", {"partition_by": ["price"]}),
    ]
    for error, says, arguments in cases:
        with pytest.raises(error, match=says):
            lancefs.spark.materialize(spark, path, out, **arguments)
    with pytest.raises(NotALanceTable, match="no version was materialized"):
        lancefs.spark.open_materialized(out)


def test_nothing_is_written_into_a_table(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    before = sorted(Path(path).rglob("*"))
    for out in (path, f"{path}/out", f"{path}/data/out"):
        with pytest.raises(ValueError, match=r"t\.lance is a Lance table, and lancefs writes"):
            lancefs.spark.materialize(spark, path, out)
    assert sorted(Path(path).rglob("*")) == before


def test_what_is_not_from_lancefs_is_left_alone(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"is not empty.*letter\.txt"):
        lancefs.spark.materialize(spark, path, str(tmp_path / "out"))
    other = make_table(tmp_path / "other.lance", 100)
    lancefs.spark.materialize(spark, other, str(tmp_path / "two"))
    with pytest.raises(ValueError, match="cannot be brought up to date"):
        lancefs.spark.materialize(spark, path, str(tmp_path / "two"), incremental=True)


def test_a_file_that_vanishes_is_named(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance")
    victim = sorted(Path(path, "data").iterdir())[0]
    victim.unlink()
    with pytest.raises(LanceError, match=victim.name):
        lancefs.spark.materialize(spark, path, str(tmp_path / "out"))


# Kills


def command(path: str, out: Path) -> list[str]:
    program = [sys.executable, "-m", "lancefs.spark", "materialize", path, str(out)]
    return [*program, "--incremental", "--target-file-size", "1", "--master", "local[2]"]


def test_a_run_that_is_killed_is_completed_by_the_next(spark: Any, tmp_path: Path) -> None:
    """Kill the command, its Java and its workers at random points of the work."""
    path = make_table(tmp_path / "t.lance", 20_000, per_file=500)
    out = tmp_path / "out"
    lancefs.spark.materialize(spark, path, str(out), target_file_size=1)
    chance = random.Random(6)
    resumed = unfinished = 0
    for number in range(KILLS):
        before = lancefs.open(path).version
        same_rows(out, path, version=lancefs.spark.open_materialized(str(out)).version)
        lance.dataset(path).delete(f"id % 20 = {number}")  # all fragments change
        append(path, 20_000 + number * 100, 100)
        files = len(lancefs.open(path).fragments)
        process = subprocess.Popen(
            command(path, out), env=environment(), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for_pieces(out, process, chance.randrange(files + 3))
        time.sleep(chance.random() * 0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # Whoever reads now sees the old version, or the new one: all of it.
        seen = lancefs.spark.open_materialized(str(out))
        assert seen.version in (before if number == 0 else seen.version, lancefs.open(path).version)
        same_rows(out, path, version=seen.version)
        unfinished += seen.version != lancefs.open(path).version
        finished = {p.name for p in (out / "_progress").glob("*.json")}
        done = lancefs.spark.materialize(
            spark, path, str(out), incremental=True, target_file_size=1
        )
        resumed += sum(Path(piece.note).name in finished for piece in done.pieces)
        same_rows(out, path)
        kept = {*done.paths, *done.previous}
        on_disk = {str(p.relative_to(out)) for p in (out / "data").rglob("*") if p.is_file()}
        assert on_disk == kept
        assert not list((out / "_progress").glob("*"))
    assert unfinished > 0
    assert resumed > 0
    print(f"{KILLS} kills, {unfinished} before the end, {resumed} fragments not written twice")


def wait_for_pieces(out: Path, process: subprocess.Popen[bytes], count: int) -> None:
    """Wait until so many fragments are written, or the run has ended."""
    end = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < end:
        if len(list((out / "_progress").glob("*.json"))) >= count:
            return
        time.sleep(0.01)
