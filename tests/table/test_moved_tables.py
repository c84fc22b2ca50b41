"""Tables that were moved together with what their base paths lead to."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import fsspec
import lance
import pyarrow as pa
import pytest
from support import copy_table, corpus_case, rewrite_manifest

import duckdb_adapter
import lancefs
from lancefs.errors import LanceError, MissingFile, UnsupportedFeature
from lancefs.filesystem import LanceFileSystem
from lancefs.proto import table_pb2
from lancefs.table.base_paths import BaseRules


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A directory with a table, a branch of it, a branch of that one, and a clone of the table."""
    lake = tmp_path / "lake"
    parent = lance.write_dataset(pa.table({"id": range(100)}), str(lake / "parent.lance"))
    branch = parent.create_branch("exp", 1)
    branch.delete("id >= 50")
    parent.create_branch("exp2", ("exp", None)).delete("id >= 10")
    parent.shallow_clone(str(lake / "clone.lance"), 1)
    return lake


def move(lake: Path, to: str) -> Path:
    return Path(shutil.move(str(lake), str(lake.parent / to)))


def test_branches_of_a_table_that_was_moved(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    here = move(lake, "other")
    dataset = lancefs.open(here / "parent.lance", branch="exp")
    with caplog.at_level(logging.WARNING):
        assert dataset.to_table()["id"].to_pylist() == list(range(50))
    assert f"{lake}/parent.lance, which is gone" in caplog.text
    assert f"read from {here}/parent.lance" in caplog.text
    assert lancefs.open(here / "parent.lance", branch="exp2").to_table().num_rows == 10
    fs = LanceFileSystem(fo=str(here / "parent.lance"))
    assert pa.ipc.open_file(fs.cat("branches/exp2/latest.arrow")).read_all().num_rows == 10


def test_a_table_that_was_renamed(lake: Path) -> None:
    (lake / "parent.lance").rename(lake / "renamed.lance")
    assert lancefs.open(lake / "renamed.lance", branch="exp").to_table().num_rows == 50


def test_a_clone_that_was_moved_with_its_parent(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = move(lake, "other")
    assert lancefs.open(here / "clone.lance").to_table().num_rows == 100
    assert f"read from {here}/parent.lance" in caplog.text


def test_a_parent_that_is_gone_is_missing(lake: Path) -> None:
    shutil.rmtree(lake / "parent.lance")
    with pytest.raises(MissingFile, match=r"parent\.lance/data/.*gone"):
        lancefs.open(lake / "clone.lance").to_table()


def test_a_parent_elsewhere_is_named(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    parent = Path(shutil.move(str(lake / "parent.lance"), str(lake.parent / "far.lance")))
    rules = BaseRules(moved={str(lake / "parent.lance"): str(parent)})
    assert lancefs.open(lake / "clone.lance", base_rules=rules).to_table().num_rows == 100
    fs = LanceFileSystem(
        fo=str(lake / "clone.lance"), base_paths={str(lake / "parent.lance"): str(parent)}
    )
    assert pa.ipc.open_file(fs.cat("latest.arrow")).read_all().num_rows == 100
    assert not caplog.records


def file_of(dataset: lancefs.LanceDataset) -> str:
    (file,) = {reader.open_file(reader.fragment.files[0])[0] for reader in dataset.opened.readers}
    return file.url


def test_a_copy_of_a_lake_is_read_without_the_original(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = lake.parent / "copy"
    shutil.copytree(lake, copy)
    clone = lancefs.open(copy / "clone.lance")
    assert clone.to_table().num_rows == 100
    assert file_of(clone).startswith(f"{copy}/parent.lance/")
    assert f"{lake}/parent.lance, which may not be read; they are read from {copy}" in caplog.text


def test_what_was_not_moved_is_read_where_it_is_when_that_is_allowed(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(lake, lake.parent / "copy")
    parent = str(lake / "parent.lance")
    for rules in (BaseRules("any"), BaseRules(moved={parent: parent})):
        clone = lancefs.open(lake.parent / "copy" / "clone.lance", base_rules=rules)
        assert clone.to_table().num_rows == 100
        assert file_of(clone).startswith(f"{parent}/")
    assert not caplog.records


def test_a_parent_in_another_folder_is_refused_with_what_to_pass(lake: Path) -> None:
    far = lake.parent / "far" / "clone.lance"
    shutil.copytree(lake / "clone.lance", far)
    with pytest.raises(UnsupportedFeature, match=r"outside of .*far.*BaseRules\(moved=.*'any'"):
        lancefs.open(far).to_table()
    for door in DOORS:
        with pytest.raises((LanceError, duckdb.Error), match="lies outside of"):
            door(str(far), None)
        assert door(str(far), BaseRules("any")) == 100


def count_by_view(path: str, rules: BaseRules | None) -> int:
    fs = LanceFileSystem(fo=path, base_rules=rules, skip_instance_cache=True)
    return int(pa.ipc.open_file(fs.cat("latest.arrow")).read_all().num_rows)


def count_by_sql(path: str, rules: BaseRules | None) -> int:
    with duckdb_adapter.connect(base_rules=rules) as connection:
        row = connection.execute(f"SELECT count(id) FROM '{path}' WHERE id >= 0").fetchone()
        assert row is not None
        return int(row[0])


def count_in_command(path: str, rules: BaseRules | None) -> int:
    follow = [] if rules is None else ["--follow", rules.follow]
    run = run_command("head", path, "-n", "1000", "-f", "csv", *follow)
    if run.returncode:
        raise LanceError(run.stderr)
    return len(run.stdout.split()) - 1


# Ways to read a table, each with rules.
DOORS = (count_by_view, count_by_sql, count_in_command)


def test_a_table_that_was_copied_into_another_store(lake: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(lake), "/moved", recursive=True)
    try:
        for name, branch, rows in (("parent", "exp", 50), ("clone", None, 100)):
            dataset = lancefs.open(f"memory://moved/{name}.lance", branch=branch)
            assert dataset.to_table().num_rows == rows
    finally:
        memory.rm("/moved", recursive=True)


def test_the_command_line_is_told_where_a_parent_is(lake: Path) -> None:
    old = str(lake / "parent.lance")
    new = str(shutil.move(old, str(lake.parent / "far.lance")))
    clone = str(lake / "clone.lance")
    lost = run_command("head", clone)
    assert lost.returncode == 3
    assert "parent.lance" in lost.stderr
    found = run_command("head", clone, "--base-path", f"{old}={new}", "-n", "2", "-f", "csv")
    assert found.stdout.split() == ['"id"', "0", "1"]
    assert run_command("verify", clone, "--base-path", f"{old}={new}").returncode == 0
    query = f"SELECT sum(id) AS total FROM '{clone}'"
    summed = run_command("sql", query, "--base-path", f"{old}={new}", "-f", "csv")
    assert summed.stdout.split() == ['"total"', "4950"]
    refused = run_command("head", clone, "--base-path", f"{old}={new}", "--follow", "table")
    assert refused.returncode == 3
    assert "follow" in refused.stderr


def test_sql_is_told_where_a_parent_is(lake: Path) -> None:
    old = str(lake / "parent.lance")
    new = str(shutil.move(old, str(lake.parent / "far.lance")))
    query = f"SELECT count(*) FROM '{lake / 'clone.lance'}' WHERE id >= 10"
    rules = BaseRules(moved={old: new})
    with duckdb_adapter.connect(base_rules=rules) as connection:
        assert connection.execute(query).fetchone() == (90,)
        assert connection.cursor().execute(query).fetchone() == (90,)
    with (
        duckdb_adapter.connect() as connection,
        pytest.raises((duckdb.Error, MissingFile), match=r"parent\.lance"),
    ):
        connection.execute(query).fetchone()


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lancefs", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("is_there", [True, False])
def test_base_paths_that_were_copied_beside_their_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_there: bool
) -> None:
    case = corpus_case("feat_multi_base-f2.1-w14.0.2")
    original, copy = tmp_path / "original", tmp_path / "copy"
    for folder in (original, copy):
        table = copy_table(case, folder)
        for name in ("base1", "base2"):  # a directory like a table's, and one of files alone
            shutil.copytree(case.directory / name, folder / name, copy_function=shutil.copyfile)
    rewrite_manifest(table, lambda manifest: lead_bases(manifest, original))
    if not is_there:
        shutil.rmtree(original)
    dataset = lancefs.open(table)
    assert dataset.to_table().num_rows == case.refs[-1].info["num_rows"]
    paths = {
        reader.open_file(file)[0].url
        for reader in dataset.opened.readers
        for file in reader.fragment.files
    }
    assert {Path(path).parts[len(copy.parts)] for path in paths} == {
        "table.lance",
        "base1",
        "base2",
    }
    why = "which may not be read" if is_there else "which is gone"
    assert f"{original}/base2, {why}; they are read from {copy}/base2" in caplog.text


def lead_bases(manifest: table_pb2.Manifest, folder: Path) -> None:
    for base in manifest.base_paths:
        base.path = str(folder / Path(base.path).name)
