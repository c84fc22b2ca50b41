"""Verifying tables, and what the pipeline wrote of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pytest
from spark_support import environment, make_table

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lancefs[spark]'")

import lancefs
import lancefs.spark
from lancefs.errors import LanceError
from lancefs.spark.__main__ import main
from lancefs.spark.pipeline.verify_job import verify


def test_a_whole_table_is_verified(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance")
    lance.dataset(path).delete("id % 10 = 0")
    report = verify(spark, path)
    assert report.is_good
    assert (report.fragments, report.rows, report.deleted, report.values) == (4, 4000, 400, 16_000)
    assert "all is well" in str(report)
    assert json.loads(report.to_json())["good"] is True


def test_the_version_of_a_time_is_verified(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance")
    written = lancefs.open(path).manifest.timestamp
    lance.dataset(path).delete("id % 10 = 0")
    assert verify(spark, path, ref=written).version == 1


def test_all_that_is_wrong_is_reported(spark: Any, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance")
    lance.dataset(path).delete("id % 10 = 0")
    dataset = lancefs.open(path)
    names = [fragment.files[0].path for fragment in dataset.fragments]
    Path(path, "data", names[0]).unlink()
    damaged = Path(path, "data", names[1])
    damaged.write_bytes(damaged.read_bytes()[:-100])
    deletion = dataset.fragments[2].deletion_file
    assert deletion is not None
    Path(path, "_deletions", deletion.path(dataset.fragments[2].id)).write_bytes(b"nothing")
    report = verify(spark, path)
    assert not report.is_good
    assert {problem.fragment for problem in report.problems} == {0, 1, 2}
    kinds = {(p.fragment, p.kind) for p in report.problems}
    assert {(0, "MissingFile"), (1, "CorruptFile"), (2, "CorruptFile")} <= kinds


def test_all_tables_of_a_folder_are_verified(spark: Any, tmp_path: Path, capsys: Any) -> None:
    lake, out = tmp_path / "lake", tmp_path / "out"
    for name in ("one", "two"):
        make_table(lake / f"{name}.lance", 20)
    lancefs.spark.materialize_all(spark, str(lake), str(out))
    verified = lancefs.spark.verify_all(spark, str(lake))
    assert {name: report.rows for name, report in verified.items()} == {"one": 20, "two": 20}
    command = ["verify", "--all", f"{lake}/*.lance", "--output", f"{out}/", "--quiet"]
    assert main(command) == 0
    assert capsys.readouterr().out.count("all is well") == 4
    written = next((out / "two" / "data").iterdir())
    written.write_bytes(bytes(written.stat().st_size))
    assert main([*command, "--json"]) == 1
    tables, outputs = map(json.loads, capsys.readouterr().out.splitlines())
    assert {name: report["good"] for name, report in tables.items()} == {"one": True, "two": True}
    assert {name: report["good"] for name, report in outputs.items()} == {"one": True, "two": False}
    next((lake / "one.lance" / "data").iterdir()).unlink()
    found = lancefs.spark.verify_all(spark, str(lake))
    assert [found["one"].problems[0].kind, found["two"].is_good] == ["MissingFile", True]
    shutil.rmtree(lake / "one.lance" / "_versions")
    with pytest.raises(LanceError, match=r"^1 of 2 tables were not verified: one \("):
        lancefs.spark.verify_all(spark, str(lake))


def test_the_command_says_what_is_wrong_and_exits_so(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t.lance", 100)
    base = [sys.executable, "-m", "lancefs.spark", "verify", path, "--json"]

    def run(*more: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*base, *more], env={**environment(), **env}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    good = run("--master", "local[1]")
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["rows"] == 100
    Path(path, "data", lancefs.open(path).fragments[0].files[0].path).unlink()
    bad = run("--master", "local[1]")
    assert bad.returncode == 1, bad.stderr
    assert json.loads(bad.stdout)["problems"][0]["kind"] == "MissingFile"
    missing = run("--master", "local[1]", "--ref", "9")
    assert missing.returncode == 2
    assert "there is no version 9" in missing.stderr
    no_java = run(JAVA_HOME=str(tmp_path))
    assert no_java.returncode == 2
    assert "point it to a JDK 17" in no_java.stderr
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho too old >&2\nexit 1\n")
    java.chmod(0o755)
    old_java = run(JAVA_HOME=str(tmp_path))
    assert old_java.returncode == 2
    says = f"lancefs: {java} ended before Spark began"
    assert [line.startswith(says) for line in old_java.stderr.splitlines()][-1]
    assert "Spark needs a JDK 17 or newer" in old_java.stderr


def test_without_pyspark_it_says_what_to_install() -> None:
    hide = "import sys; sys.modules['pyspark'] = None\n"
    program = hide + "try:\n import lancefs.spark\nexcept ImportError as e: print(e)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'lancefs[spark]'" in done.stdout
