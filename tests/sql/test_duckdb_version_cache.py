"""A version stays open from one query to the next; a query never shows what is there no longer."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from store_doubles import SlowFileSystem

from duckdb_adapter.resolved_names import resolve_name
from duckdb_adapter.sources.rows import Rows
from duckdb_adapter.storage import Storage
from duckdb_adapter.version_cache import open_cached
from lancefs.errors import RefNotFound
from lancefs.storage import Store
from lancefs.table.base_paths import BaseRules
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(10), "s": ["x", "y"] * 5}), path)
    return path


def add_row(table: str) -> None:
    lance.write_dataset(pa.table({"a": [100], "s": ["z"]}), table, mode="append")


def opened(table: str, ref: Ref = Ref(), **options: Any) -> OpenVersion:  # noqa: B008
    return open_cached(Store(LocalFileSystem(**options), table), ref, None)


def test_a_version_is_opened_once(table: str) -> None:
    assert opened(table) is opened(table)
    assert opened(table, Ref(version=1)) is opened(table, Ref(version=1))
    now = datetime.now(UTC)
    assert opened(table, Ref(as_of=now)) is opened(table)
    add_row(table)
    assert opened(table, Ref(as_of=now)).manifest.version == 1
    assert opened(table).manifest.version == 2


def test_the_columns_of_a_version_are_described_once(
    con: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[object] = []
    describe = Rows._encoded_columns

    def noted(self: Rows, kept: frozenset[int]) -> Any:
        described.append(self)
        return describe(self, kept)

    monkeypatch.setattr(Rows, "_encoded_columns", noted)
    for number in range(3):
        assert con.sql(f"SELECT a FROM '{table}' WHERE a = {number}").fetchall() == [(number,)]
    assert len(described) == 1
    query = f"SELECT * FROM lance_scan('{table}', with_row_id := true) WHERE a = 2"
    assert con.sql(query).fetchall() == [(2, "x", 2)]
    lance.dataset(table).add_columns({"b": "a + 1"})
    assert con.sql(f"SELECT * FROM '{table}' WHERE a = 2").fetchall() == [(2, "x", 3)]


def test_a_newer_version_takes_its_place(con: Any, table: str) -> None:
    query = f"SELECT count(*), sum(a), max(s) FROM '{table}'"
    assert con.sql(query).fetchall() == [(10, 45, "y")]
    first = opened(table)
    add_row(table)
    assert con.sql(query).fetchall() == [(11, 145, "z")]
    assert opened(table) is not first
    assert con.sql(f"SELECT count(*) FROM '{table}@v1'").fetchall() == [(10,)]
    lance.dataset(table).delete("a = 100")
    assert con.sql(query).fetchall() == [(10, 45, "y")]


def test_a_file_by_the_other_scheme_is_told_of_a_version_that_is_kept(con: Any, table: str) -> None:
    query = f"SELECT count(*) FROM '{table}'"
    assert con.sql(query).fetchall() == con.sql(query).fetchall() == [(10,)]
    Path(table, "_versions", "1.manifest").touch()
    with pytest.raises(Exception, match="two schemes"):
        con.sql(query).fetchall()


def test_a_version_that_is_deleted_is_shown_no_longer(con: Any, table: str) -> None:
    query = f"SELECT count(*) FROM '{table}'"
    add_row(table)
    assert con.sql(query).fetchall() == con.sql(query).fetchall() == [(11,)]
    newest = min(Path(table, "_versions").glob("*.manifest"))
    newest.unlink()
    assert con.sql(query).fetchall() == [(10,)]


def test_a_table_that_is_made_anew_is_another_one(con: Any, table: str) -> None:
    query = f"SELECT sum(a) FROM '{table}'"
    assert con.sql(query).fetchall() == [(45,)]
    shutil.rmtree(table)
    lance.write_dataset(pa.table({"a": range(1, 11), "s": ["x", "y"] * 5}), table)
    assert con.sql(query).fetchall() == [(55,)]
    shutil.rmtree(table)
    with pytest.raises(Exception, match=r"t\.lance"):
        con.sql(query).fetchall()


def test_a_table_that_is_moved_into_place_is_another_one(con: Any, table: str) -> None:
    query = f"SELECT sum(a) FROM '{table}'"
    assert con.sql(query).fetchall() == [(45,)]
    os.rename(table, f"{table}.old")
    lance.write_dataset(pa.table({"a": [7], "s": ["x"]}), f"{table}.new")
    os.rename(f"{table}.new", table)
    assert con.sql(query).fetchall() == [(7,)]
    os.rename(table, f"{table}.new")
    os.rename(f"{table}.old", table)
    assert con.sql(query).fetchall() == [(45,)]


def test_a_link_to_another_table_is_another_one(con: Any, table: str, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": [7], "s": ["x"]}), str(tmp_path / "u.lance"))
    link = tmp_path / "link.lance"
    for target, expected in (("t.lance", 45), ("u.lance", 7), ("t.lance", 45)):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / target)
        assert con.sql(f"SELECT sum(a) FROM '{link}'").fetchall() == [(expected,)]


def test_a_relative_path_is_another_table_in_another_directory(
    con: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        lance.write_dataset(pa.table({"a": [number]}), str(tmp_path / str(number) / "t.lance"))
    for number in (1, 2, 1):
        monkeypatch.chdir(tmp_path / str(number))
        assert con.sql("SELECT a FROM 't.lance'").fetchall() == [(number,)]


def test_a_link_in_a_table_that_was_read_before_does_not_lead_elsewhere(
    con: Any, tmp_path: Path
) -> None:
    table, other = tmp_path / "lake" / "t.lance", tmp_path / "secret" / "u.lance"
    for number, path in enumerate((table, other)):
        lance.write_dataset(pa.table({"a": [number]}), str(path))
    query = f"SELECT a FROM '{table}'"
    assert con.sql(query).fetchall() == con.sql(query).fetchall() == [(0,)]
    shutil.rmtree(table / "_versions")
    (table / "_versions").symlink_to(other / "_versions")
    for _ in range(2):
        with pytest.raises(Exception, match=r"symbolic link leads to .*secret"):
            con.sql(query).fetchall()


@pytest.mark.parametrize("ref", ["", "@v2"])
def test_a_link_in_place_of_a_directory_of_an_open_version_is_refused(
    con: Any, tmp_path: Path, ref: str
) -> None:
    table, secret = tmp_path / "lake" / "t.lance", tmp_path / "secret"
    lance.write_dataset(pa.table({"a": range(10)}), str(table))
    lance.dataset(str(table)).add_columns({"b": "a * 2"})  # in a data file of its own
    assert con.sql(f"SELECT sum(a) FROM '{table}{ref}'").fetchall() == [(45,)]
    (table / "data").rename(secret)
    (table / "data").symlink_to(secret)
    for _ in range(2):
        with pytest.raises(Exception, match=r"symbolic link leads to .*secret"):
            con.sql(f"SELECT sum(b) FROM '{table}{ref}'").fetchall()


@pytest.mark.parametrize("rows", [10, 200_000], ids=["read", "mapped"])
def test_a_file_that_is_put_back_is_read_again(con: Any, tmp_path: Path, rows: int) -> None:
    table = tmp_path / "t.lance"
    values = pa.array(range(rows), pa.int64())
    lance.write_dataset(pa.table({"a": values}), str(table))
    query = f"SELECT sum(a) FROM '{table}'"
    (data,) = (table / "data").iterdir()
    sound = data.read_bytes()
    data.write_bytes(bytes(len(sound)))
    for _ in range(2):
        with pytest.raises(Exception, match=data.name):
            con.sql(query).fetchall()
    (tmp_path / "whole").write_bytes(sound)
    os.rename(tmp_path / "whole", data)
    assert con.sql(query).fetchall() == [(sum(range(rows)),)]


def test_a_manifest_that_is_rewritten_is_read_again(con: Any, table: str) -> None:
    query = f"SELECT count(*) FROM '{table}'"
    assert con.sql(query).fetchall() == [(10,)]
    (manifest,) = Path(table, "_versions").glob("*.manifest")
    sound = manifest.read_bytes()
    manifest.write_bytes(bytes(len(sound)))
    with pytest.raises(Exception, match=manifest.name):
        con.sql(query).fetchall()
    manifest.write_bytes(sound)
    assert con.sql(query).fetchall() == [(10,)]


def test_how_a_table_is_reached_tells_versions_apart(table: str) -> None:
    first, store = opened(table), Store(LocalFileSystem(), table)
    assert opened(table, mmap=False) is not first
    rules = BaseRules(follow="table")
    assert open_cached(store, Ref(), rules) is open_cached(store, Ref(), rules)
    assert open_cached(store, Ref(), rules).rules is rules
    assert open_cached(store, Ref(), BaseRules(follow="any")).rules == BaseRules(follow="any")


def test_versions_of_a_remote_table_are_told_by_digests(table: str) -> None:
    fs = SlowFileSystem(0.0)
    first = open_cached(Store(fs, table), Ref(), None)
    fs.requests.clear()
    assert open_cached(Store(fs, table), Ref(), None) is first
    assert [one.partition(" ")[0] for one in fs.requests] == ["LIST"]
    add_row(table)
    assert open_cached(Store(fs, table), Ref(), None).manifest.version == 2
    # Another filesystem may have other credentials.
    assert open_cached(Store(SlowFileSystem(0.0), table), Ref(version=1), None) is not first


def test_nothing_is_kept_where_no_digest_tells_bytes(table: str) -> None:
    fs = MemoryFileSystem()
    fs.put(table, "/kept/t.lance", recursive=True)
    try:
        store = Store(fs, "/kept/t.lance")
        assert open_cached(store, Ref(), None) is not open_cached(store, Ref(), None)
    finally:
        fs.rm("/kept", recursive=True)


def test_an_error_has_all_opened_anew(table: str) -> None:
    first = opened(table)
    with pytest.raises(RefNotFound):
        resolve_name(f"{table}@v99", Storage({}))
    assert opened(table) is not first
