"""The contract of fsspec filesystems on `LanceFileSystem`; and that it never writes."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import fsspec
import lance
import pyarrow as pa
import pytest
from fs_tables import ids, read
from pyarrow import feather

import lancefs
from lancefs.filesystem import LanceFileSystem

PATH = "versions/2.arrow"
RANGES = [(0, 6), (None, 6), (100, 200), (-6, None), (-20, -6), (5, 5), (9, 3), (1, None)]


def test_info_has_the_exact_size_and_the_version(fs: LanceFileSystem, shared_table: str) -> None:
    info = fs.info("tags/prod.arrow")
    committed = lancefs.open(shared_table, version=2).manifest.timestamp
    assert info == {
        "name": "tags/prod.arrow",
        "type": "file",
        "size": len(fs.cat("tags/prod.arrow")),
        "created": committed,
        "mtime": committed.timestamp(),
        "version": 2,
        "branch": None,
    }
    assert fs.info("branches/exp/latest.arrow")["branch"] == "exp"
    assert fs.info("versions") == {"name": "versions", "size": 0, "type": "directory"}


def test_a_stream_says_that_it_has_no_size_and_cannot_seek(fs: LanceFileSystem) -> None:
    info = fs.info("latest.arrows")
    assert info["size"] is None
    assert info["seekable"] is False
    assert fs.size("latest.arrows") is None


def test_created_and_modified_are_when_the_version_was_committed(
    fs: LanceFileSystem, shared_table: str
) -> None:
    stamps = {v["version"]: v["timestamp"] for v in lance.dataset(shared_table).versions()}
    for path, version in {
        "versions/1.arrow": 1,
        "versions/1/columns/id.arrow": 1,
        "tags/prod": 2,
        "latest.arrows": 3,
        "versions": 3,
        "": 3,
    }.items():
        assert fs.created(path) == fs.modified(path)
        assert fs.created(path).tzinfo is UTC
        assert fs.created(path).timestamp() == pytest.approx(stamps[version].timestamp(), abs=1e-3)


def test_listings_give_sizes_that_are_known(fs: LanceFileSystem) -> None:
    fs.invalidate_cache()
    size = fs.info("versions/2/columns/id.arrow")["size"]
    listed = {one["name"]: one for one in fs.ls("versions/2/columns", detail=True)}
    assert listed["versions/2/columns/id.arrow"]["size"] == size
    assert all(one["type"] == "file" and "created" in one for one in listed.values())


def test_a_file_lists_itself(fs: LanceFileSystem) -> None:
    assert fs.ls(PATH) == [fs.info(PATH)]
    assert fs.ls(PATH, detail=False) == [PATH]
    assert fs.find(PATH) == [PATH]


def test_exists_isfile_and_isdir(fs: LanceFileSystem) -> None:
    for path in (PATH, "latest.arrows", "versions/1/schema.json", "latest/columns/id,price.arrow"):
        assert (fs.exists(path), fs.isfile(path), fs.isdir(path)) == (True, True, False)
    for path in ("", "/", "versions", "versions/1", "latest/columns", "branches/team", "tags/prod"):
        assert (fs.exists(path), fs.isfile(path), fs.isdir(path)) == (True, False, True)
    for path in ("versions/9.arrow", "versions/9", "tags/x", "branches/x", "x", f"{PATH}/x"):
        assert (fs.exists(path), fs.isfile(path), fs.isdir(path)) == (False, False, False)


def test_ranges_are_cut_as_slices_are(fs: LanceFileSystem) -> None:
    whole = fs.cat_file(PATH)
    stream = fs.cat_file("versions/2.arrows")
    for start, end in RANGES:
        assert fs.cat_file(PATH, start, end) == whole[start:end]
        assert fs.cat_file("versions/2.arrows", start, end) == stream[start:end]
    assert fs.cat_file(PATH, 0, 10**9) == whole
    assert fs.cat_ranges([PATH, "versions/2.arrows", PATH], [0, 0, -6], [6, 4, None]) == [
        whole[:6],
        stream[:4],
        whole[-6:],
    ]
    assert fs.cat_ranges([PATH, PATH], 0, 6) == [whole[:6]] * 2
    assert fs.head(PATH, 6) == fs.tail(PATH, 6) == b"ARROW1"
    missing = fs.cat_ranges([PATH, "versions/9.arrow"], 0, 6)
    assert isinstance(missing[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError, match="no version 9"):
        fs.cat_ranges([PATH, "versions/9.arrow"], 0, 6, on_error="raise")


def test_cat_takes_several_files(fs: LanceFileSystem) -> None:
    assert {path: len(ids(data)) for path, data in fs.cat("versions/*.arrow").items()} == {
        "versions/1.arrow": 1000,
        "versions/2.arrow": 900,
        "versions/3.arrow": 1000,
    }


def test_any_number_of_readers_seek_on_their_own(fs: LanceFileSystem) -> None:
    whole = fs.cat_file(PATH)
    with fs.open(PATH) as one, fs.open(PATH) as other:
        assert one.seek(-6, 2) == len(whole) - 6
        assert one.read() == b"ARROW1"
        assert other.read(6) == b"ARROW1"
        assert (one.tell(), other.tell(), one.size) == (len(whole), 6, len(whole))
        assert (one.seekable(), one.readable(), one.writable()) == (True, True, False)
        assert one.info()["version"] == 2
        assert pa.ipc.open_file(other).read_all().num_rows == 900
    with pytest.raises(ValueError, match="closed"):
        one.read(1)


def test_text_can_be_read_as_text(fs: LanceFileSystem) -> None:
    with fs.open("latest/schema.json", "r") as file:
        assert file.readline() == "{\n"
    assert fs.read_text("latest/schema.json").startswith("{\n")


def test_files_are_downloaded(fs: LanceFileSystem, tmp_path: Path) -> None:
    fs.get("latest.arrow", str(tmp_path / "one.arrow"))
    with pa.memory_map(str(tmp_path / "one.arrow")) as mapped:
        assert pa.ipc.open_file(mapped).read_all().num_rows == 1000
    fs.get("latest.arrows", str(tmp_path / "one.arrows"))
    assert (tmp_path / "one.arrows").read_bytes() == fs.cat("latest.arrows")
    fs.get("versions/1", str(tmp_path / "all"), recursive=True)
    assert sorted(str(p.relative_to(tmp_path / "all")) for p in (tmp_path / "all").glob("*/*")) == [
        "columns/a%2Cb%2Fc%25.arrow",
        "columns/id.arrow",
        "columns/name.arrow",
        "columns/price.arrow",
        "fragments/0.arrow",
        "fragments/1.arrow",
        "fragments/2.arrow",
    ]


def test_a_mapper_has_the_files_of_a_directory(fs: LanceFileSystem) -> None:
    mapper = fs.get_mapper("versions/1/columns")
    assert sorted(mapper) == ["a%2Cb%2Fc%25.arrow", "id.arrow", "name.arrow", "price.arrow"]
    assert read(mapper["id.arrow"]).num_rows == 1000


def test_du_adds_up_the_sizes_of_files(fs: LanceFileSystem) -> None:
    sizes = fs.du("versions/1", total=False)
    assert sizes["versions/1/columns/id.arrow"] == len(fs.cat("versions/1/columns/id.arrow"))
    assert fs.du("versions/1") == sum(sizes.values())
    assert fs.du("tags", maxdepth=1) == fs.size("tags/prod.arrow")


def test_keys_of_versions_and_views_differ(fs: LanceFileSystem) -> None:
    paths = ["latest.arrow", "versions/2.arrow", "versions/2.arrows", "versions/2/columns/id.arrow"]
    assert len({fs.ukey(path) for path in paths}) == len(paths)
    assert fs.ukey("latest.arrow") == fs.ukey("versions/3.arrow")
    assert fs.ukey("tags/prod.arrow") == fs.ukey("versions/2.arrow")
    assert fs.ukey("versions/2.arrow") != fs.ukey("branches/exp/versions/3.arrow")
    assert fs.checksum("versions/2.arrow") == int(fs.ukey("versions/2.arrow"), 16)


def test_it_can_be_pickled(fs: LanceFileSystem, in_memory: str) -> None:
    again = pickle.loads(pickle.dumps(fs))
    LanceFileSystem.clear_instance_cache()
    fresh = pickle.loads(pickle.dumps(fs))
    assert again is fs
    assert fresh is not fs
    assert fresh.cat(PATH) == fs.cat(PATH)
    direct = pickle.loads(pickle.dumps(LanceFileSystem(target_protocol="memory")))
    assert direct.exists(f"{in_memory}/latest.arrow")


def test_a_relative_path_means_what_it_meant_when_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("one", "other")):
        lance.write_dataset(pa.table({"n": [number]}), str(tmp_path / name / "t.lance"))

    def number_in(files: fsspec.AbstractFileSystem) -> int:
        with files.open("latest.arrow") as file:
            return int(feather.read_table(file)["n"][0].as_py())

    given: list[dict[str, str]] = [{"fo": "t.lance"}, {"fo": "file://t.lance"}]
    for options in given:
        monkeypatch.chdir(tmp_path / "one")
        first = fsspec.filesystem("lance", **options)
        assert fsspec.filesystem("lance", **options) is first
        pickled = pickle.dumps(first)
        monkeypatch.chdir(tmp_path / "other")
        assert number_in(fsspec.filesystem("lance", **options)) == 1
        assert number_in(first) == number_in(pickle.loads(pickled)) == 0
    monkeypatch.chdir(tmp_path / "one")
    assert number_in(pickle.loads(pickle.dumps(LanceFileSystem("t.lance", mmap=False)))) == 0


def test_an_open_file_can_be_pickled_and_stays_on_its_version(table: str) -> None:
    fs = LanceFileSystem()
    with fs.open(f"{table}/latest.arrow") as file:
        file.seek(10)
        pickled = pickle.dumps(file)
        rest = file.read()
    lance.dataset(table).delete("id > 5")
    with pickle.loads(pickled) as again:
        assert again.tell() == 10
        assert again.read() == rest


WRITES: dict[str, Callable[[LanceFileSystem], Any]] = {
    "open w": lambda fs: fs.open("new", "w"),
    "open wb": lambda fs: fs.open(PATH, "wb"),
    "open ab": lambda fs: fs.open(PATH, "ab"),
    "open xb": lambda fs: fs.open("new", "xb"),
    "open r+b": lambda fs: fs.open(PATH, "r+b"),
    "pipe": lambda fs: fs.pipe("new", b""),
    "write_text": lambda fs: fs.write_text("new", ""),
    "touch": lambda fs: fs.touch("new"),
    "mkdir": lambda fs: fs.mkdir("new"),
    "makedirs": lambda fs: fs.makedirs("new", exist_ok=True),
    "rmdir": lambda fs: fs.rmdir("versions/1"),
    "rm": lambda fs: fs.rm("versions/1", recursive=True),
    "rm_file": lambda fs: fs.rm_file(PATH),
    "delete": lambda fs: fs.delete(PATH),
    "cp": lambda fs: fs.cp(PATH, "new"),
    "mv": lambda fs: fs.mv(PATH, "new"),
    "put": lambda fs: fs.put(__file__, "new"),
    "put_file": lambda fs: fs.put_file(__file__, "new"),
    "mapper": lambda fs: fs.get_mapper("versions").__setitem__("new", b""),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_is_refused(name: str, fs: LanceFileSystem, shared_table: str) -> None:
    before = sorted(Path(shared_table).rglob("*"))
    with pytest.raises(OSError, match="Read-only") as refused:
        WRITES[name](fs)
    assert refused.value.errno == errno.EROFS
    assert sorted(Path(shared_table).rglob("*")) == before


def test_reading_creates_nothing(table: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(table).parent.rglob("*")}
    fs = LanceFileSystem(fo=table)
    for path in fs.find(""):
        fs.cat_file(path)
    assert {path: path.stat().st_mtime_ns for path in Path(table).parent.rglob("*")} == before
