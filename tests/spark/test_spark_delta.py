"""A materialized version as a Delta table, which `deltalake` reads back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from spark_support import append, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'lancefs[delta]'")

import deltalake

import lancefs
import lancefs.spark
from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.spark.__main__ import main
from lancefs.spark.pipeline.delta import require_delta


def publish(spark: Any, path: str, out: Path, **how: Any) -> Any:
    """Bring a destination and its Delta table up to date; return the table."""
    how = {"types": "spark", "incremental": True, "target_file_size": 1, **how}
    done = lancefs.spark.materialize(spark, path, str(out), **how)
    version = lancefs.spark.publish_delta(done)
    table = deltalake.DeltaTable(str(out))
    assert table.version() == version
    assert sorted(Path(uri) for uri in table.file_uris()) == sorted(map(Path, done.urls))
    expected = lancefs.open(path).to_table().sort_by("id")
    got = table.to_pyarrow_table().sort_by("id").select(expected.column_names)
    assert got.to_pylist() == expected.to_pylist()
    return table


def test_a_delta_table_follows_a_lance_table(spark: Any, tmp_path: Path) -> None:
    path, out = make_table(tmp_path / "t.lance"), tmp_path / "out"
    first = publish(spark, path, out)
    assert (first.version(), len(first.file_uris())) == (0, 4)
    append(path, 4000, 10)
    lance.dataset(path).delete("id = 1500")
    second = publish(spark, path, out)
    last = second.history()[0]
    assert (last["lancefs.source"], last["lancefs.version"]) == (path, "3")
    assert len({*first.file_uris()} & {*second.file_uris()}) == 3
    assert second.to_pyarrow_table().num_rows == 4009
    # Who reads the version before is not disturbed.
    assert deltalake.DeltaTable(str(out), version=0).to_pyarrow_table().num_rows == 4000
    assert publish(spark, path, out).version() == second.version()  # nothing is new


def test_columns_come_and_go(spark: Any, tmp_path: Path) -> None:
    path, out = make_table(tmp_path / "t.lance", 100), tmp_path / "out"
    publish(spark, path, out)
    lance.dataset(path).add_columns({"at": "arrow_cast(id, 'Timestamp(Microsecond, None)')"})
    lance.dataset(path).drop_columns(["size"])
    lance.dataset(path).alter_columns({"path": "price", "name": "cost"})
    table = publish(spark, path, out)
    assert [field.name for field in table.schema().fields] == ["id", "city", "cost", "at"]
    assert spark.read.parquet(*table.file_uris()).count() == 100
    lance.dataset(path).delete("true")
    assert publish(spark, path, out).file_uris() == []


def test_directories_are_values_of_the_delta_table(spark: Any, tmp_path: Path) -> None:
    names = ["a b", "a/b", "a=b", "50%", "é", ".", "[x]*", None]
    table = pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "the name": pa.array([names[i % len(names)] for i in range(60)]),
            "day": pa.array([i % 3 if i % 5 else None for i in range(60)], pa.date32()),
            "flag": pa.array([i % 2 == 0 for i in range(60)]),
        }
    )
    path, out = str(tmp_path / "t.lance"), tmp_path / "out"
    lance.write_dataset(table, path)
    by = ["the name", "day", "flag"]
    publish(spark, path, out, partition_by=by)
    lance.dataset(path).delete("id < 3")
    publish(spark, path, out, partition_by=by)
    done = lancefs.spark.materialize(spark, path, str(out), types="spark")
    with pytest.raises(LanceError, match="out holds a Delta table with other columns or direct"):
        lancefs.spark.publish_delta(done)


def test_what_delta_cannot_hold_is_said(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1], "t": pa.array([1], pa.time64("us"))}), path)
    done = lancefs.spark.materialize(spark, path, str(tmp_path / "a"))
    with pytest.raises(ValueError, match="needs format = parquet and types = spark"):
        lancefs.spark.publish_delta(done)
    done = lancefs.spark.materialize(spark, path, str(tmp_path / "b"), types="spark")
    with pytest.raises(UnsupportedFeature, match=r"/b: Delta tables have no type for t \(time64"):
        lancefs.spark.publish_delta(done)
    assert not (tmp_path / "b" / "_delta_log").exists()


def test_the_command_makes_delta_tables_of_all_tables(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_table(tmp_path / "lake" / "one.lance", 10)
    make_table(tmp_path / "lake" / "two.lance", 20)
    out, metrics = tmp_path / "out", tmp_path / "metrics.jsonl"
    given = ["materialize", "--all", str(tmp_path / "lake" / "*.lance"), str(out), "--quiet"]
    assert main([*given, "--types", "spark", "--delta", "--metrics", str(metrics)]) == 0
    assert [deltalake.DeltaTable(str(out / name)).count() for name in ("one", "two")] == [10, 20]
    assert f"{out}/two: version 1, 20 rows\n" in capsys.readouterr().out
    assert len(metrics.read_text().splitlines()) == 4
    assert main([*given[:3], str(tmp_path / "other"), "--delta"]) == 2
    assert not (tmp_path / "other").exists()  # it is said before anything is written
    assert "needs format = parquet and types = spark" in capsys.readouterr().err


def test_without_deltalake_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(
        ImportError, match=r"needs the library deltalake: pip install 'lancefs\[del"
    ):
        require_delta("parquet", "spark")
