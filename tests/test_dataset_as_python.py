"""What Python programs expect of a dataset: a length, ends, samples, equality, other versions."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import obstore.store
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pytest
from support import REPOSITORY

import lancefs
from lancefs.errors import MissingFile, NotALanceTable, RefNotFound
from lancefs.table.refs import Ref


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of three versions in fragments of 100 rows, 30 of which are deleted."""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(
        pa.table({"a": range(300), "b": [str(i) for i in range(300)]}), path, max_rows_per_file=100
    )
    lance.dataset(path).delete("a % 10 = 9")
    lance.dataset(path).tags.create("prod", 2)
    lance.write_dataset(pa.table({"a": [300], "b": ["300"]}), path, mode="append")
    return path


def test_a_dataset_has_a_length_and_a_shape(path: str) -> None:
    dataset = lancefs.open(path)
    assert len(dataset) == 271
    assert dataset.shape == (271, 2)
    assert dataset.with_row_metadata().shape == (271, 3)
    assert dataset.filter("a < 5").shape == (5, 2)
    assert bool(dataset.filter("a < 0")), "a dataset without rows is one, too"


@pytest.mark.parametrize("rows", [0, 1, 3, 150, 271, 1000])
def test_tail_reads_the_last_rows(path: str, rows: int) -> None:
    dataset = lancefs.open(path)
    every = dataset.to_table()
    assert dataset.tail(rows) == every.slice(max(0, 271 - rows))
    odd = every.filter(pc.field("a") < 250)
    found = dataset.tail(rows, columns=["b"], filter="a < 250")
    assert found["b"].to_pylist() == odd["b"].to_pylist()[max(0, odd.num_rows - rows) :]


def test_tail_is_that_of_what_a_scanner_reads(path: str) -> None:
    dataset = lancefs.open(path)
    assert dataset.tail(2, ["a"], limit=5, offset=1)["a"].to_pylist() == [4, 5]
    assert dataset.tail(2, ["a"], fragments=[0])["a"].to_pylist() == [97, 98]
    (fragment, *_) = dataset.get_fragments()
    assert fragment.tail(1)["a"].to_pylist() == [98]
    scanner = dataset.scanner(["a"])
    assert scanner.tail(1)["a"].to_pylist() == [300]
    assert scanner.stats.fragments == 1
    with pytest.raises(ValueError, match="num_rows is -1"):
        dataset.tail(-1)


def test_a_sample_has_rows_of_the_table_once_each_in_its_order(path: str) -> None:
    dataset = lancefs.open(path)
    every = dataset.to_table()["a"].to_pylist()
    for rows in (0, 1, 100, 271, 1000):
        drawn = dataset.sample(rows, seed=1)["a"].to_pylist()
        assert len(drawn) == min(rows, 271)
        assert drawn == sorted(set(drawn))
        assert set(drawn) <= set(every)
    assert dataset.sample(50, seed=1) == dataset.sample(50, seed=1)
    assert dataset.sample(50, seed=1) != dataset.sample(50, seed=2)
    assert dataset.sample(50) != dataset.sample(50)
    with pytest.raises(ValueError, match="num_rows is -1; a number from 0 on was expected"):
        dataset.sample(-1)
    for draw in (dataset.sample, dataset.describe):
        with pytest.raises(ValueError, match="seed is -1; a number from 0 on"):
            draw(seed=-1, **({"num_rows": 3} if draw == dataset.sample else {"sample": 3}))
    with pytest.raises(ValueError, match="sample is 0; a positive number"):
        dataset.describe(sample=0)


def test_a_sample_is_of_the_rows_that_a_filter_keeps(path: str) -> None:
    dataset = lancefs.open(path)
    drawn = dataset.sample(20, seed=3, columns=["b"], filter="a >= 100 and a < 150", batch_size=7)
    numbers = [int(text) for text in drawn["b"].to_pylist()]
    assert len(set(numbers)) == 20
    assert all(100 <= number < 150 for number in numbers)
    assert dataset.sample(99, columns=["a"], limit=4)["a"].to_pylist() == [0, 1, 2, 3]
    assert dataset.filter("a < 3").sample(99)["a"].to_pylist() == [0, 1, 2]


def test_each_row_is_drawn_as_often(path: str) -> None:
    dataset = lancefs.open(path).filter("a < 10")  # nine rows
    drawn = [dataset.sample(3, seed=seed)["a"].to_pylist() for seed in range(300)]
    counts = np.bincount(np.concatenate(drawn), minlength=9)
    assert counts.min() > 60, "of 100 that are expected"


def test_datasets_of_the_same_version_are_equal(path: str) -> None:
    dataset = lancefs.open(path)
    assert dataset == lancefs.open(path, version=3) == pickle.loads(pickle.dumps(dataset))
    assert len({dataset, lancefs.open(path)}) == 1
    assert dataset != lancefs.open(path, version=2)
    assert dataset != dataset.with_row_metadata()
    assert dataset != dataset.filter("a > 3")
    assert dataset.filter("a > 3") == dataset.filter("a > 3")
    assert dataset.filter(pc.field("a") > 3) == dataset.filter(pc.field("a") > 3)
    assert dataset.filter(pc.field("a") > 3) != dataset.filter(pc.field("a") > 4)
    assert dataset != "t.lance"


def test_a_table_that_was_made_anew_is_another(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": [1]}), path)
    old = lancefs.open(path)
    path.rename(tmp_path / "old.lance")
    lance.write_dataset(pa.table({"a": [2]}), path)
    assert old.version == lancefs.open(path).version
    assert old != lancefs.open(path)


def test_checkout_opens_another_version(path: str) -> None:
    dataset = lancefs.open(path)
    assert dataset.checkout(1) == lancefs.open(path, version=1)
    assert dataset.checkout("prod") == lancefs.open(path, tag="prod")
    assert dataset.filter("a < 20").checkout(1).count_rows() == 20
    assert "_rowid" in dataset.with_row_metadata().checkout(1).schema.names
    with pytest.raises(RefNotFound, match="the table has 1, 2, 3"):
        dataset.checkout(9)


def test_a_number_is_of_the_same_branch_unless_the_text_names_one(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    branch = dataset.create_branch("exp", 1)
    dataset.insert(pa.table({"a": [2]}))
    branch.insert(pa.table({"a": [3]}))
    ours = lancefs.open(tmp_path / "t.lance", branch="exp")
    for ref in (2, "2", " v2 ", "exp:2"):
        assert ours.checkout(ref).to_table()["a"].to_pylist() == [1, 3]
    for ref in ("main:2", "main:latest", "latest", Ref(version=2)):
        assert ours.checkout(ref).to_table()["a"].to_pylist() == [1, 2]
    with pytest.raises(ValueError, match="of the same branch"):
        ours.changes("main:1")


def test_what_is_no_version_is_refused(path: str) -> None:
    dataset = lancefs.open(path)
    assert dataset.checkout(np.int64(1)).version == 1
    wrong: list[Any] = [1.0, None, True, -1]
    for ref in wrong:
        for use in (dataset.checkout, dataset.changes):
            with pytest.raises(ValueError, match="is not a version"):
                use(ref)
    with pytest.raises(ValueError, match="versions of 64 bits are detached, and not read"):
        dataset.checkout(2**63 + 1)
    with pytest.raises(ValueError, match="newest is -1"):
        dataset.history(-1)
    with pytest.raises(TypeError, match="newest is '2'"):
        dataset.history("2")  # type: ignore[arg-type]


def test_a_pickle_is_not_of_a_table_that_was_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": [1]}), path)
    pickled = pickle.dumps(lancefs.open(path))
    assert pickle.loads(pickled).to_table()["a"].to_pylist() == [1]
    shutil.rmtree(path)
    lance.write_dataset(pa.table({"a": [2]}), path)
    with pytest.raises(MissingFile, match=r"t\.lance@1: the table was deleted and made anew"):
        pickle.loads(pickled)


def test_checkout_keeps_the_indices_out(path: str) -> None:
    lance.dataset(path).create_scalar_index("a", "BTREE")
    newest = lancefs.open(path)
    for dataset, is_used in ((newest, True), (newest.without_indices(), False)):
        explained = str(dataset.checkout(newest.version).scanner(filter="a = 5").explain())
        assert ("a_idx" in explained) == is_used


def test_a_dataset_knows_of_newer_versions(path: str) -> None:
    old = lancefs.open(path, version=1)
    assert old.latest_version == 3
    lance.dataset(path).delete("a = 0")
    assert old.latest_version == 4
    assert old.checkout(old.latest_version).count_rows() == 270


def test_stats_tell_what_a_version_consists_of(path: str) -> None:
    stats = lancefs.open(path).stats()
    assert stats._replace(bytes=0) == (271, 30, 2, 4, 4, 3, 0)
    files = Path(path, "data").iterdir()
    assert stats.bytes == sum(file.stat().st_size for file in files)


def test_a_path_may_end_in_a_ref(path: str) -> None:
    assert lancefs.open(f"{path}@prod").version == 2
    assert lancefs.open(f"{path}@v1").version == 1
    assert lancefs.open(f"{path}/@latest").version == 3
    with pytest.raises(RefNotFound, match="the table has the tags prod"):
        lancefs.open(f"{path}@prd")
    with pytest.raises(ValueError, match="names a version, and so does another argument"):
        lancefs.open(f"{path}@prod", version=1)
    with pytest.raises(NotALanceTable, match=r"none\.lance: there is no such directory"):
        lancefs.open(path.replace("t.lance", "none.lance@1"))


def test_a_directory_that_is_called_so_wins(path: str) -> None:
    lance.write_dataset(pa.table({"other": [1]}), f"{path}@prod")
    assert lancefs.open(f"{path}@prod").schema.names == ["other"]
    Path(f"{path}@1").mkdir()
    with pytest.raises(NotALanceTable, match=r"t\.lance@1"):
        lancefs.open(f"{path}@1")


def test_a_filesystem_may_be_handed_in(path: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(path, "/handed/t.lance", recursive=True)
    try:
        expected = lancefs.open(path).to_table()
        assert lancefs.open("/handed/t.lance", filesystem=memory).to_table() == expected
        assert lancefs.open("memory://handed/t.lance@1", filesystem=memory).version == 1
        wrapped = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(memory))
        for filesystem in (wrapped, pyarrow.fs.LocalFileSystem()):
            place = path if filesystem is not wrapped else "/handed/t.lance"
            assert lancefs.open(place, filesystem=filesystem).to_table() == expected
    finally:
        memory.rm("/handed", recursive=True)
    with pytest.raises(TypeError, match="one of fsspec or pyarrow was expected"):
        lancefs.open(path, filesystem="s3")
    with pytest.raises(TypeError, match="is a dict; one of") as refused:
        lancefs.open(path, filesystem={"secret": "hidden"})
    assert "hidden" not in str(refused.value)
    with pytest.raises(TypeError, match=r"a MemoryStore; .*obstore\.fsspec\.FsspecStore"):
        lancefs.open(path, filesystem=obstore.store.MemoryStore())
    with pytest.raises(ValueError, match="options of its own"):
        lancefs.open(path, filesystem=memory, storage_options={"anon": True})


def test_a_scanner_says_what_it_reads(path: str) -> None:
    dataset = lancefs.open(path)
    name = f"{path}@{dataset.version}"
    assert repr(dataset.scanner()) == f"<LanceScanner of {name}: 2 columns>"
    scanner = dataset.scanner({"c": pc.field("a") + 1}, "a > 3", limit=5000, offset=2)
    assert repr(scanner) == f"<LanceScanner of {name}: 1 column, filtered, limit 5,000, offset 2>"


def test_the_module_lists_its_names_before_they_are_imported() -> None:
    program = (
        "import lancefs\n"
        "assert set(lancefs.__all__) <= set(dir(lancefs))\n"
        "assert issubclass(lancefs.errors.RefNotFound, lancefs.errors.LanceError)\n"
        "assert all(hasattr(lancefs, name) for name in lancefs.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=REPOSITORY)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_not_installed_is_an_extra(
    package: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'lancefs\[{package}\]'"):
        getattr(lancefs.open(path), f"to_{package}")()
