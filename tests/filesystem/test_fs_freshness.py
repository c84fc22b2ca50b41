"""Caching: what is looked up again, what is cached, and how many requests that takes."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import fsspec
import lance
import pyarrow as pa
import pytest
from fs_tables import CountingFileSystem, ids, rows

from lancefs.errors import NotALanceTable, RefNotFound
from lancefs.filesystem import LanceFileSystem
from lancefs.views import open_tables


@pytest.fixture
def counting(shared_table: str) -> Iterator[CountingFileSystem]:
    """A store with the shared table as `/t.lance` that counts its requests."""
    store = CountingFileSystem()
    store.put(shared_table, "/t.lance", recursive=True)
    store.invalidate_cache()
    store.requests.clear()
    yield store
    CountingFileSystem.store.clear()
    CountingFileSystem.pseudo_dirs[:] = [""]


def test_a_new_version_is_seen_at_once(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    assert len(ids(fs.cat("latest.arrow"))) == 1000
    assert [fs.exists(f"versions/{version}.arrow") for version in (3, 4)] == [True, False]
    before = fs.ls("versions", detail=False)
    lance.dataset(table).delete("id >= 10")
    assert ids(fs.cat("latest.arrow")) == [i for i in range(10) if i != 3]
    assert fs.info("latest.arrow")["version"] == 4
    new = [f"versions/4{end}" for end in (".arrow", ".arrows", "")]
    assert fs.ls("versions", detail=False) == before + new
    assert fs.ls("latest", detail=True)[0]["name"] == "latest/columns"
    lance.dataset(table).drop_columns(["price"])
    assert "latest/columns/price.arrow" not in fs.ls("latest/columns", detail=False)


def test_a_tag_that_was_moved_is_seen_at_once(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    assert fs.info("tags/prod.arrow")["version"] == 2
    lance.dataset(table).tags.update("prod", 1)
    assert fs.info("tags/prod.arrow")["version"] == 1
    lance.dataset(table).tags.create("new", 3)
    assert "tags/new.arrow" in fs.ls("tags", detail=False)


def test_an_open_file_stays_on_its_version(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    expected = fs.cat("latest.arrow")
    stream = fs.cat("latest.arrows")
    with fs.open("latest.arrow") as file, fs.open("latest.arrows") as flowing:
        start = file.read(100), flowing.read(100)
        lance.dataset(table).delete("id >= 10")
        assert start[0] + file.read() == expected
        assert start[1] + flowing.read() == stream


def test_a_recreated_table_is_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    url = f"lance://{path}/versions/1.arrow"
    for first in (0, 500):
        lance.write_dataset(rows(first, first + 10), path)
        for one in (url, f"lance://latest.arrow::file://{path}"):
            with fsspec.open(one) as file:
                assert ids(file.read()) == list(range(first, first + 10))
        shutil.rmtree(path)
    assert not LanceFileSystem().exists(f"{path}/versions/1.arrow")


def test_a_version_that_was_cleaned_up_is_gone(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    assert len(ids(fs.cat("versions/1.arrow"))) == 1000
    max(Path(table).glob("_versions/*.manifest")).unlink()
    with pytest.raises(RefNotFound, match=r"no version 1; the table has 2, 3 \(older ones"):
        fs.cat("versions/1.arrow")
    assert not fs.exists("versions/1.arrow")


def test_listings_show_the_table_that_is_there_now(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    fs = LanceFileSystem(fo=path)
    for column in ("first", "second"):
        lance.write_dataset(pa.table({column: [1]}), path)
        listed = [f"versions/1/columns/{column}.arrow"]
        assert fs.ls("versions/1/columns", detail=False) == listed
        assert fs.glob("versions/1/columns/*") == listed
        shutil.rmtree(path)
    with pytest.raises(NotALanceTable):
        fs.ls("versions/1/columns")


def test_a_listing_is_not_changed_by_callers(table: str) -> None:
    fs = LanceFileSystem(fo=table, listings_expiry_time=1000)
    fs.ls("versions/1/columns")[0]["name"] = "changed by a caller"
    assert fs.ls("versions/1/columns")[0]["name"] == "versions/1/columns/id.arrow"


def test_listings_are_forgotten_by_path(table: str) -> None:
    fs = LanceFileSystem(fo=table, listings_expiry_time=1000)
    fs.ls("versions/1/columns")
    fs.ls("versions/2")
    fs.invalidate_cache("versions/2")
    assert set(fs.dircache) == {"versions/1/columns"}
    fs.invalidate_cache("versions")
    assert not fs.dircache
    fs.ls("versions/1/columns")
    fs.invalidate_cache()
    assert not fs.dircache


def test_listings_are_cached_for_listings_expiry_time(table: str) -> None:
    fs = LanceFileSystem(fo=table, listings_expiry_time=1000)
    before = fs.ls("versions")
    lance.dataset(table).delete("id >= 10")
    assert fs.ls("versions") == before
    assert len(fs.ls("versions", refresh=True)) == len(before) + 3
    lance.dataset(table).delete("id >= 5")
    fs.invalidate_cache()
    assert len(fs.ls("versions")) == len(before) + 6
    never = LanceFileSystem(fo=table, use_listings_cache=False, listings_expiry_time=1000)
    never.ls("versions/1/columns")
    assert not never.dircache


def test_the_newest_version_takes_one_listing_and_one_read(counting: CountingFileSystem) -> None:
    fs = LanceFileSystem(fs=counting, fo="/t.lance")
    fs.ukey("latest.arrow")
    assert counting.requests == Counter(list=1, get=1)
    fs.ls("latest/columns")
    assert counting.requests == Counter(list=2, get=1)


def test_a_known_version_takes_no_request(
    counting: CountingFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_tables, "LISTED_SECONDS", 1000)
    fs = LanceFileSystem(fs=counting, fo="/t.lance")
    fs.cat("versions/2.arrow")
    counting.requests.clear()
    fs.cat("versions/2.arrow")
    fs.cat_ranges(["versions/2.arrow"] * 5, 0, 10)
    fs.ls("versions/2/fragments")
    fs.exists("versions/2/columns/id.arrow")
    assert counting.requests == Counter()


def test_a_known_version_is_listed_again_after_a_second(
    counting: CountingFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = LanceFileSystem(fs=counting, fo="/t.lance")
    assert len(ids(fs.cat("versions/1.arrow"))) == 1000
    lance.write_dataset(rows(500, 510), tmp_path / "t.lance")
    counting.store.clear()
    counting.pseudo_dirs[:] = [""]
    counting.put(str(tmp_path / "t.lance"), "/t.lance", recursive=True)
    monkeypatch.setattr(open_tables, "LISTED_SECONDS", 0)
    counting.requests.clear()
    assert fs.ls("versions/1/fragments", detail=False) == ["versions/1/fragments/0.arrow"]
    assert counting.requests == Counter(list=1, get=1)
    assert ids(fs.cat("versions/1.arrow")) == list(range(500, 510))


def test_all_ranges_of_a_path_come_from_one_version(counting: CountingFileSystem) -> None:
    fs = LanceFileSystem(fs=counting, fo="/t.lance")
    fs.cat("latest.arrow")
    counting.requests.clear()
    fs.cat_ranges(["latest.arrow"] * 5, 0, 10)
    assert counting.requests == Counter(list=1)


def test_walking_the_versions_lists_them_once(counting: CountingFileSystem) -> None:
    fs = LanceFileSystem(fs=counting, fo="/t.lance")
    assert len(fs.find("versions")) > 20
    assert counting.requests == Counter(list=1, get=3)


def test_a_direct_path_is_searched_for_its_table_once(
    counting: CountingFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_tables, "LISTED_SECONDS", 1000)
    fs = LanceFileSystem(fs=counting)
    fs.cat("/t.lance/versions/2.arrow")
    counting.requests.clear()
    fs.cat("/t.lance/versions/2.arrow")
    assert counting.requests == Counter()
    fs.info("/t.lance/latest.arrows")
    assert counting.requests == Counter(list=1, get=1)
