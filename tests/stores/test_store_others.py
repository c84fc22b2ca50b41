"""Tables in stores of other kinds: memory, archives, filesystems of one directory."""

from __future__ import annotations

import asyncio
import sys
import tarfile
import threading
import time
import traceback
import types
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs
import pytest
from comparison import assert_same_table
from fsspec import AbstractFileSystem
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from store_doubles import SlowFileSystem
from store_servers import WebServer, web_server
from support import ORDERS

import lancefs
from lancefs.errors import (
    LanceError,
    MissingFile,
    NotALanceTable,
    ReadFailed,
    UnsupportedFeature,
)
from lancefs.filesystem import LanceFileSystem
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store, filesystems
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve


@pytest.fixture
def archive(home: Path, tmp_path: Path) -> str:
    """A zip archive with the table in it."""
    path = tmp_path / "lake.zip"
    with zipfile.ZipFile(path, "w") as file:
        for one in (home / "t.lance").rglob("*"):
            file.write(one, one.relative_to(home))
    return str(path)


def test_threads_do_not_meet_in_a_cache_that_notes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = fsspec.filesystem("memory")
    names = [f"{number}.bin" for number in range(12)]
    for name in names:
        memory.pipe(f"/noted/{name}", name.encode() * 50)
    fs = fsspec.filesystem("filecache", fs=memory, cache_storage=str(tmp_path / "cache"))
    under_way = most = 0
    read = type(memory).get_file

    def slow(*arguments: Any, **options: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.005)
        try:
            return read(*arguments, **options)
        finally:
            under_way -= 1

    monkeypatch.setattr(type(memory), "get_file", slow)
    store = Store(fs, "/noted")
    found: dict[str, bytes] = {}

    def fetch(name: str) -> None:
        found[name] = store.fetch([(name, 2, 20)])[0].tobytes()

    threads = [threading.Thread(target=fetch, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: (name.encode() * 50)[2:20] for name in names}
    assert most == 1


def test_a_class_that_another_thread_imports_has_no_instances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "fsspec.implementations.dirfs"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert not filesystems.is_directory(fsspec.filesystem("memory"))


def test_a_table_in_memory_is_read(home: Path, expected: pa.Table) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(home / "t.lance"), "/stores/t.lance", recursive=True)
    try:
        assert_same_table(lancefs.open("memory://stores/t.lance").to_table(), expected)
        frame = pd.read_feather("lance://latest.arrow::memory://stores/t.lance")
        pd.testing.assert_frame_equal(frame, expected.to_pandas())
    finally:
        memory.rm("/stores", recursive=True)


def test_a_table_in_an_archive_is_read(archive: str, expected: pa.Table) -> None:
    url = f"zip://t.lance::file://{archive}"
    assert_same_table(lancefs.open(url).to_table(), expected)
    assert lancefs.open(f"{url}@v2").version == lancefs.open(url, version=2).version == 2
    fs = LanceFileSystem(fo="t.lance", fs=fsspec.filesystem("zip", fo=archive))
    assert fs.glob("versions/*.arrow") == [f"versions/{n}.arrow" for n in (1, 2, 3)]
    assert_same_table(pa.ipc.open_file(fs.cat("latest.arrow")).read_all(), expected)


class HostFileSystem(MemoryFileSystem):
    """A store that must be told its host, as those by SSH must, and finds it in URLs."""

    protocol = "hosted"
    cachable = False

    def __init__(self, host: str, user: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.place = f"{user}@{host}"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        rest = path.partition("hosted://")[2]
        return "/" + rest.partition("/")[2] if rest else path.rstrip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"host": path.partition("://")[2].partition("/")[0]} if "://" in path else {}


def test_the_host_in_a_url_is_used_beside_options(home: Path) -> None:
    fsspec.register_implementation("hosted", HostFileSystem, clobber=True)
    fsspec.filesystem("memory").put(str(home / "t.lance"), "/hosted/t.lance", recursive=True)
    try:
        fs = LanceFileSystem(
            fo="hosted://here/hosted/t.lance",
            target_protocol="hosted",
            target_options={"user": "me"},
        )
        assert fs.fs.place == "me@here"
        assert fs.exists("versions/3.arrow")
    finally:
        fsspec.filesystem("memory").rm("/hosted", recursive=True)


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lake.zip"
    with pytest.raises(NotALanceTable, match=r"zip://t\.lance::.*lake\.zip: .*No such file"):
        lancefs.open(f"zip://t.lance::{path}")
    path.write_bytes(b"no archive")
    with pytest.raises(ReadFailed, match=r"lake\.zip: cannot be opened: File is not a zip file"):
        lancefs.open(f"zip://t.lance::{path}")
    with pytest.raises(ReadFailed, match=r"ftp://me:\*\*\*@localhost:1/t\.lance: cannot be opened"):
        lancefs.open("ftp://me:pw@localhost:1/t.lance")


def test_no_secret_of_an_archive_is_shown() -> None:
    secret = "hidden"
    with pytest.raises(LanceError) as error:
        lancefs.open(f"zip://t.lance::http://me:{secret}@localhost:1/lake.zip?token={secret}")
    assert secret not in "".join(traceback.format_exception(error.value))


def test_an_archive_on_a_server_without_range_requests_has_a_way(
    archive: str, expected: pa.Table
) -> None:
    secret = "hidden"
    with web_server(WebServer(Path(archive).parent, ranges=False)) as url:
        with pytest.raises(ReadFailed, match=r"put simplecache:: before") as error:
            lancefs.open(f"zip://t.lance::{url}/lake.zip?token={secret}")
        assert secret not in "".join(traceback.format_exception(error.value))
        copied = lancefs.open(f"zip://t.lance::simplecache::{url}/lake.zip")
        assert_same_table(copied.to_table(), expected)


@pytest.fixture
def tarred(home: Path, tmp_path: Path) -> str:
    """A tar archive with the table in it."""
    path = tmp_path / "lake.tar"
    with tarfile.open(path, "w") as file:
        file.add(home / "t.lance", "t.lance")
    return f"tar://t.lance::file://{path}"


def test_threads_do_not_meet_in_an_archive_of_one_open_file(
    tarred: str, expected: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = lancefs.open(tarred)
    seek = tarfile._FileInFile.seek

    def slow(*arguments: Any) -> int:
        place = seek(*arguments)
        time.sleep(0.0005)
        return place

    monkeypatch.setattr(tarfile._FileInFile, "seek", slow)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: dataset.to_table(), range(8)):
            assert_same_table(found, expected)


class OneConnection(AbstractFileSystem):  # type: ignore[misc]
    """Local files; requests that meet get wrong answers, as on a connection of FTP."""

    protocol = "one"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._files = fsspec.filesystem("file")
        self._under_way = 0

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._under_way += 1
        time.sleep(0.0005)
        try:
            if self._under_way > 1:
                raise OSError("125 Data connection already open")
            return getattr(self._files, method)(*arguments)
        finally:
            self._under_way -= 1

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> Any:
        return self._ask("cat_file", path, start, end)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        return self._ask("ls", path, detail)


@pytest.mark.parametrize("kind", ["FTP", "SFTP"])
def test_threads_do_not_meet_on_a_connection(
    kind: str, home: Path, expected: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"fsspec.implementations.{kind.lower()}"
    module: Any = types.ModuleType(name)  # in place of the real one, which may need a package
    setattr(module, f"{kind}FileSystem", OneConnection)
    monkeypatch.setitem(sys.modules, name, module)
    fs = OneConnection()

    def read(_: int) -> pa.Table:
        return lancefs.open(str(home / "t.lance"), filesystem=fs).to_table()

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(read, range(8)):
            assert_same_table(found, expected)


class WholeFiles(AbstractFileSystem):  # type: ignore[misc]
    """Local files that are not given in part but from an open file, as by sshfs."""

    __module__ = "sshfs.spec"

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        return Path(path).read_bytes()

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        return fsspec.filesystem("file").ls(path, detail)

    def info(self, path: str, **kwargs: Any) -> Any:
        return fsspec.filesystem("file").info(path)

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        return open(path, mode)


def test_a_filesystem_that_gives_parts_of_open_files_only(home: Path, expected: pa.Table) -> None:
    dataset = lancefs.open(str(home / "t.lance"), filesystem=WholeFiles())
    assert_same_table(dataset.to_table(), expected)
    (home / "t.lance" / "data" / dataset.fragments[0].files[0].path).rename(lost := home / "lost")
    try:
        with pytest.raises(MissingFile, match="the file is gone"):
            lancefs.open(str(home / "t.lance"), filesystem=WholeFiles()).to_table()
    finally:
        lost.rename(home / "t.lance" / "data" / dataset.fragments[0].files[0].path)


def of_fsspec() -> Any:
    """Return the filesystem of fsspec for local files, as pyarrow wraps it."""
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("file")))


def of_pyarrow() -> Any:
    """Return the filesystem of pyarrow for local files, as fsspec wraps it and that for HDFS."""
    return ArrowFSWrapper(pyarrow.fs.LocalFileSystem())


@pytest.mark.parametrize("make", [WholeFiles, of_fsspec, of_pyarrow])
def test_a_clone_on_a_machine_is_kept_in_its_folder_however_it_is_reached(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    """By wrappers, and by sshfs, which says of itself no protocol."""
    (tmp_path / "mine").mkdir()
    lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "others" / "t.lance"))
    other = lance.dataset(str(tmp_path / "others" / "t.lance"))
    other.shallow_clone(str(tmp_path / "mine" / "clone.lance"), 1)
    clone = str(tmp_path / "mine" / "clone.lance")
    with pytest.raises(UnsupportedFeature, match="lies outside of"):
        lancefs.open(clone, filesystem=make()).to_table()
    rules = lancefs.BaseRules(follow="any")
    table = lancefs.open(clone, filesystem=make(), base_rules=rules).to_table()
    assert table["a"].to_pylist() == [1]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_table_in_a_directory_of_a_store_is_read(
    kind: str, home: Path, expected: pa.Table
) -> None:
    inner = fsspec.filesystem("file") if kind == "sync" else SlowFileSystem(0.0)
    fs = LanceFileSystem(fo="t.lance", fs=DirFileSystem(path=str(home), fs=inner))
    assert_same_table(pa.ipc.open_file(fs.cat("latest.arrow")).read_all(), expected)
    assert fs.isdir("versions/2/columns")


def test_remote_ranges_are_fetched_together(home: Path, expected: pa.Table) -> None:
    store = SlowFileSystem(0.05)
    fs = LanceFileSystem(fo=str(home / "t.lance"), fs=store)
    assert_same_table(pa.ipc.open_file(fs.cat("latest.arrow")).read_all(), expected)
    assert store.most_at_once >= 4


def test_the_footer_of_a_wide_table_takes_one_request(tmp_path: Path) -> None:
    path = str(tmp_path / "wide.lance")
    lance.write_dataset(pa.table({f"c{i:04}": np.arange(500) for i in range(2000)}), path)
    store = SlowFileSystem(0.0)
    resolved = resolve(Store(store, path))
    dataset = LanceDataset(OpenVersion(resolved))
    store.requests.clear()
    assert dataset.to_table(columns=["c0003"]).num_rows == 500
    assert len(store.requests) == 2  # the footer, and the page


def test_the_first_rows_of_a_wide_table_take_four_rounds_of_requests(tmp_path: Path) -> None:
    path = str(tmp_path / "wide.lance")
    numbers = np.random.default_rng(1).random(9_000)  # too many bytes to read pages whole
    rows = pa.table({f"c{i:03}": numbers for i in range(500)})
    lance.write_dataset(rows, path)
    store = SlowFileSystem(0.0)
    dataset = LanceDataset(OpenVersion(resolve(Store(store, path))))
    assert dataset.head(10).equals(rows.slice(0, 10))
    # The versions, the manifest, the footer with the columns' metadata, the first chunks of pages.
    assert store.rounds <= 4


def test_the_first_rows_are_found_where_chunks_are_larger_than_most(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    texts = ["x" * (3000 if i < 9 else 5) + str(i) for i in range(40_000)]
    rows = pa.table({"a": texts, "b": [[i, i] for i in range(40_000)]})
    lance.write_dataset(rows, path, data_storage_version="2.2")
    dataset = LanceDataset(OpenVersion(resolve(Store(SlowFileSystem(0.0), path))))
    for length in (1, 9, 11, 5_000, 20_000, 39_999):
        assert dataset.head(length).equals(rows.slice(0, length))


class MeetingFileSystem(SlowFileSystem):
    """A store that answers requests for data files once some of them are under way together."""

    def __init__(self, number: int) -> None:
        super().__init__(0.0)
        self.missing = number
        self.is_complete = asyncio.Event()

    async def _cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        if "/data/" in path:
            self.missing -= 1
            if self.missing <= 0:
                self.is_complete.set()
            await asyncio.wait_for(self.is_complete.wait(), 60)
        return await super()._cat_file(path, *args, **kwargs)


@pytest.mark.parametrize("read", ["to_table", "count_rows"])
def test_all_fragments_are_asked_at_once_where_all_rows_are_wanted(
    read: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "t.lance")
    numbers = np.random.default_rng(1).random(200_000)
    lance.write_dataset(pa.table({"a": numbers}), path, max_rows_per_file=50_000)
    dataset = LanceDataset(OpenVersion(resolve(Store(MeetingFileSystem(4), path))))
    rows = getattr(dataset, read)(filter="a >= 0")
    assert (rows if read == "count_rows" else rows.num_rows) == 200_000


def test_a_table_on_a_host_is_named_with_the_host(tmp_path: Path) -> None:
    class OnHost(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
        """As those of FTP, SFTP and SMB: paths without the host, which is an attribute."""

        protocol = ("onhost",)
        host, port = "files.example", 2121
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return "/" + path.removeprefix("onhost://files.example:2121").strip("/")

    fs = OnHost()
    fs.put(ORDERS, "/orders.lance", recursive=True)
    assert lancefs.open("/orders.lance", filesystem=fs).uri == (
        "onhost://files.example:2121/orders.lance"
    )
    with pytest.raises(NotALanceTable, match=r"files\.example:2121/order\.lance: there"):
        lancefs.open("/order.lance", filesystem=fs)
