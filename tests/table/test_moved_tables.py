"""Tables that were moved together with what their base paths lead to."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import fsspec
import lance
import pyarrow as pa
import pytest

import lancefs
from lancefs.errors import MissingFile
from lancefs.filesystem import LanceFileSystem
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


def test_what_was_not_moved_is_read_where_it_is(
    lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(lake, lake.parent / "copy")
    clone = lancefs.open(lake.parent / "copy" / "clone.lance")
    assert clone.to_table().num_rows == 100
    (file,) = {reader.open_file(reader.fragment.files[0])[0] for reader in clone._fragment_readers}
    assert file.url.startswith(f"{lake}/parent.lance/")
    assert not caplog.records


def test_a_table_that_was_copied_into_another_store(lake: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(lake), "/moved", recursive=True)
    try:
        for name, branch, rows in (("parent", "exp", 50), ("clone", None, 100)):
            dataset = lancefs.open(f"memory://moved/{name}.lance", branch=branch)
            assert dataset.to_table().num_rows == rows
    finally:
        memory.rm("/moved", recursive=True)
