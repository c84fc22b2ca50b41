"""Two servers: what was given for one of them never reaches the other one."""

from __future__ import annotations

import base64
import logging
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import fsspec
import lance
import pyarrow as pa
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.http import HTTPFileSystem
from store_servers import BUCKET, Counts, WebServer, web_server
from support import lead_elsewhere

import duckdb_adapter
import lancefs
from lancefs.cli.main import main
from lancefs.errors import CorruptFile, LanceError, ReadFailed, UnsupportedFeature
from lancefs.filesystem import LanceFileSystem
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.storage import file as storage
from lancefs.table.base_paths import BaseRules
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

SECRET = "a-secret"
ROWS = 100

GIVEN = (
    "headers",
    "session headers",
    "login",
    "login of a request",
    "cookies",
    "cookie of a request",
)
LOGIN = base64.b64encode(f"user:{SECRET}".encode()).decode()

# aiohttp advises against logins, which users give nevertheless.
pytestmark = pytest.mark.filterwarnings("ignore:.*(BasicAuth|auth).*:DeprecationWarning")


def secret(given: str = "headers") -> dict[str, Any]:
    """Return options that give a secret to a web server, in one of the ways of `GIVEN`."""
    if given == "headers":
        return {"headers": {"Authorization": SECRET, "X-Api-Key": SECRET}}
    if given == "session headers":
        return {"client_kwargs": {"headers": {"Authorization": SECRET, "X-Key": SECRET}}}
    login, cookies = aiohttp.BasicAuth("user", SECRET), {"session": SECRET}
    return {
        "login": {"client_kwargs": {"auth": login}},
        "login of a request": {"auth": login},
        "cookies": {"client_kwargs": {"cookies": cookies}},
        "cookie of a request": {"cookies": cookies},
    }[given]


class Pair:
    """The server of the table's owner, with the table, and another one with the same files."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.own, self.other = WebServer(home), WebServer(home)
        self.own_url = self.other_url = ""

    def secrets_of(self, server: WebServer) -> list[str]:
        """Return the secrets in the requests to a server."""
        headers = [f"{name}: {value}" for one in server.headers for name, value in one.items()]
        return [one for one in [*headers, *server.queries] if SECRET in one or LOGIN in one]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    lance.write_dataset(pa.table({"id": range(ROWS)}), str(tmp_path / "lake" / "t.lance"))
    pair = Pair(tmp_path / "lake")
    with web_server(pair.own) as pair.own_url, web_server(pair.other) as pair.other_url:
        yield pair
    HTTPFileSystem.clear_instance_cache()


def by_dataset(url: str, options: dict[str, Any], rules: BaseRules | None) -> int:
    return lancefs.open(url, storage_options=options, base_rules=rules).to_table().num_rows


def by_view(url: str, options: dict[str, Any], rules: BaseRules | None) -> int:
    fs = LanceFileSystem(fo=url, target_protocol="http", target_options=options, base_rules=rules)
    return int(pa.ipc.open_file(fs.cat("versions/1.arrow")).read_all().num_rows)


def by_sql(url: str, options: dict[str, Any], rules: BaseRules | None) -> int:
    storage = {"http": options}
    with duckdb_adapter.connect(storage_options=storage, base_rules=rules) as connection:
        row = connection.execute(f"SELECT count(id) FROM '{url}' WHERE id >= 0").fetchone()
        assert row is not None
        return int(row[0])


Door = Callable[[str, dict[str, Any], BaseRules | None], int]
DOORS = [by_dataset, by_view, by_sql]


@pytest.mark.parametrize("door", DOORS)
def test_another_server_is_no_part_of_the_store(pair: Pair, door: Door) -> None:
    lead_elsewhere(pair.home / "t.lance", f"{pair.other_url}/t.lance/data")
    with pytest.raises(Exception, match=r"in another store than http://127.0.0.1:\d+; .*'any'"):
        door(f"{pair.own_url}/t.lance", secret(), None)
    assert not pair.other.headers


@pytest.mark.parametrize("given", GIVEN)
def test_another_server_that_is_allowed_gets_no_options_of_the_table(
    pair: Pair, given: str
) -> None:
    lead_elsewhere(pair.home / "t.lance", f"{pair.other_url}/t.lance/data")
    for door in DOORS:
        assert door(f"{pair.own_url}/t.lance", secret(given), BaseRules("any")) == ROWS
    assert pair.secrets_of(pair.own)
    assert pair.other.headers
    assert not pair.secrets_of(pair.other)


def test_options_go_to_the_origin_that_they_are_given_for(pair: Pair) -> None:
    lead_elsewhere(pair.home / "t.lance", f"{pair.other_url}/t.lance/data")
    options = {pair.other_url: secret(), "http://127.0.0.1:1": {"headers": {"X": "y"}}}
    assert by_dataset(f"{pair.own_url}/t.lance", {}, BaseRules("any", {}, options)) == ROWS
    assert pair.secrets_of(pair.other)
    assert not pair.secrets_of(pair.own)
    with pytest.raises(ValueError, match="by origin"):
        BaseRules("any", storage_options={"http": secret()})


@pytest.mark.parametrize(
    "spelled",
    ["HTTP://{host}/t.lance/data", "http://{host}//t.lance/data/", "http://me@{host}/t.lance/data"],
)
def test_the_same_server_is_the_same_store_however_it_is_spelled(pair: Pair, spelled: str) -> None:
    host = pair.own_url.partition("://")[2]
    lead_elsewhere(pair.home / "t.lance", spelled.format(host=host))
    assert by_dataset(f"{pair.own_url}/t.lance", secret(), None) == ROWS
    assert not pair.other.headers


@pytest.mark.parametrize(
    "spelled",
    [
        "http://{own}@{other}/t.lance/data",
        "http://{own}\\@{other}/t.lance/data",
        "http://{other}#@{own}/t.lance/data",
        "http://{other}?@{own}/t.lance/data",
        "http://{other}\t/t.lance/data",
        "//{other}/t.lance/data",
        "https://{own}/t.lance/data",
        "http://[::1/t.lance/data",
        "http:///t.lance/data",
        "http://{own}.evil.example/t.lance/data",
    ],
)
def test_a_disguised_server_gets_nothing(pair: Pair, spelled: str) -> None:
    own, other = (url.partition("://")[2] for url in (pair.own_url, pair.other_url))
    lead_elsewhere(pair.home / "t.lance", spelled.format(own=own, other=other))
    with pytest.raises(LanceError):
        by_dataset(f"{pair.own_url}/t.lance", secret(), None)
    assert not pair.other.headers


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("door", DOORS)
def test_a_redirect_to_another_server_carries_no_secret(pair: Pair, door: Door, given: str) -> None:
    pair.own.redirect = pair.other_url
    assert door(f"{pair.own_url}/t.lance", secret(given), None) == ROWS
    assert pair.secrets_of(pair.own)
    assert pair.other.headers
    assert not pair.secrets_of(pair.other)


@pytest.mark.parametrize("given", GIVEN)
def test_a_filesystem_that_has_made_requests_carries_no_secret_either(
    pair: Pair, given: str
) -> None:
    url = f"{pair.own_url}/t.lance"
    fs = HTTPFileSystem(**secret(given), skip_instance_cache=True)
    assert fs.ls(url)
    pair.own.redirect = pair.other_url

    def read() -> int:
        return LanceDataset(OpenVersion(resolve(Store(fs, url)))).to_table().num_rows

    if given in ("login", "cookies"):  # which a session that has been opened cannot drop
        with pytest.raises(ReadFailed, match="the session has a login or cookies"):
            read()
    else:
        assert read() == ROWS
    assert not pair.secrets_of(pair.other)


def test_a_redirect_on_the_same_server_keeps_what_was_given(pair: Pair) -> None:
    pair.own.moved = {"/old/": "/"}
    url = f"{pair.own_url}/old/t.lance"
    assert lancefs.open(url, version=1, storage_options=secret()).to_table().num_rows == ROWS
    assert len(pair.secrets_of(pair.own)) == 2 * len(pair.own.headers)


@pytest.mark.parametrize(
    "name", ["%2e%2e/%2e%2e/private/a.lance", "..%2f..%2fprivate%2fa.lance", "%252e%252e/a.lance"]
)
def test_a_quoted_name_does_not_leave_the_table(pair: Pair, name: str) -> None:
    (pair.home / "private").mkdir()
    (pair.home / "private" / "a.lance").write_bytes(b"secret")
    lead_elsewhere(pair.home / "t.lance", path=name)
    with pytest.raises(CorruptFile, match="stays below its base"):
        by_dataset(f"{pair.own_url}/t.lance", {}, None)
    assert not any("private" in path for path in pair.own.counts.paths)


@pytest.mark.parametrize(
    "name", ["a?b.lance", "a#b.lance", "a%b.lance", "a b+c.lance", "ä&=.lance"]
)
@pytest.mark.parametrize("form", ["plain", "cached", "directory"])
def test_names_are_quoted(pair: Pair, name: str, form: str, tmp_path: Path) -> None:
    table = pair.home / "t.lance"
    (file,) = (table / "data").iterdir()
    file.rename(table / "data" / name)
    lead_elsewhere(table, path=name)
    if form == "directory":
        fs = LanceFileSystem(fo="t.lance", fs=DirFileSystem(pair.own_url, HTTPFileSystem()))
        assert pa.ipc.open_file(fs.cat("versions/1.arrow")).read_all().num_rows == ROWS
        return
    url = f"{pair.own_url}/t.lance"
    if form == "cached":
        url, options = (
            f"simplecache::{url}",
            {"simplecache": {"cache_storage": str(tmp_path / "c")}},
        )
    else:
        options = {}
    dataset = lancefs.open(url, version=1, storage_options=options)
    assert dataset.to_table().num_rows == ROWS


def test_a_token_in_the_url_of_a_table_goes_behind_the_names(pair: Pair) -> None:
    url = f"{pair.own_url}/t.lance?token={SECRET}"
    assert lancefs.open(url, version=1).to_table().num_rows == ROWS
    assert set(pair.own.queries) == {f"token={SECRET}"}


def test_branches_and_tags_with_quoted_names_are_found(pair: Pair) -> None:
    table = lance.dataset(str(pair.home / "t.lance"))
    table.create_branch("feature/one", 1)
    table.tags.create("a.b-c_d", 1)
    url = f"{pair.own_url}/t.lance"
    assert lancefs.open(url, branch="feature/one").to_table().num_rows == ROWS
    fs = LanceFileSystem(fo=url)
    assert [path.rpartition("/")[2] for path in fs.ls("tags", detail=False)][:1] == [
        "a.b-c_d.arrow"
    ]


@pytest.mark.parametrize("where", ["login", "query"])
def test_secrets_of_a_url_are_shown_nowhere(
    pair: Pair,
    where: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.INFO, "lancefs")
    host = pair.own_url.partition("://")[2]
    login, query = (f"me:{SECRET}@", "") if where == "login" else ("", f"?X-Amz-Signature={SECRET}")
    url = f"http://{login}{host}/t.lance{query}"
    shown = []
    dataset = lancefs.open(url, version=1)
    assert SECRET in dataset.uri
    shown += [repr(dataset), dataset._repr_html_(), repr(dataset.opened.resolved.store)]
    shown += [str(LanceFileSystem(fo=url)), repr(dataset.opened.resolved.manifest)]
    storage._CACHE.clear()  # the files are small, and in it
    for status in (403, 404):
        for fails in (
            lambda: dataset.to_table(),
            lambda: lancefs.open(url),
            lambda: lancefs.open(url, version=7),
            lambda: LanceFileSystem(fo=url).cat("versions/1.arrow"),
        ):
            pair.own.failures = [status] * 50
            with pytest.raises(LanceError) as caught:
                fails()
            shown.append("".join(traceback.format_exception(caught.value)))
    pair.own.failures = []
    for words in (["show", url], ["--debug", "show", f"{url}x"], ["head", url, "-c", "nothing"]):
        main(words)
    with pytest.raises(IndexError) as beyond:
        dataset.take([ROWS])
    shown += [str(beyond.value), caplog.text, *capsys.readouterr()]
    assert not [text for text in shown if SECRET in text]


def test_a_report_shows_no_secret(pair: Pair, tmp_path: Path) -> None:
    url = f"http://me:{SECRET}@{pair.own_url.partition('://')[2]}/t.lance"
    page = tmp_path / "page.html"
    assert main(["report", url, "-o", str(page)]) == 0
    assert "***" in page.read_text("utf-8")
    assert SECRET not in page.read_text("utf-8")


@pytest.fixture
def buckets(s3_options: dict[str, Any], tmp_path: Path) -> Iterator[Path]:
    """Two buckets; the table `t.lance` is to be put into the first of them."""
    fs = fsspec.filesystem("s3", **s3_options)
    fs.call_s3("create_bucket", Bucket="other")
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(ROWS)}), str(path))
    yield path
    fs.rm("other", recursive=True)


def put(path: Path, url: str, options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("s3", **options)
    fs.put(str(path), url, recursive=True)
    fs.invalidate_cache()


def test_another_bucket_is_another_store(
    buckets: Path, s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    put(buckets, "other/t.lance", s3_options)
    for base in ("s3://other/t.lance/data", "s3a://other/t.lance/data", "/other/t.lance/data"):
        copy = Path(shutil.copytree(buckets, buckets.with_name("copy.lance"), dirs_exist_ok=True))
        lead_elsewhere(copy, base)
        put(copy, f"{BUCKET}/foreign/t.lance", s3_options)
        url = f"s3://{BUCKET}/foreign/t.lance"
        s3_counts.clear()
        with pytest.raises(UnsupportedFeature, match=r"in another store than s3://lake; .*'any'"):
            lancefs.open(url, storage_options=s3_options).to_table()
        assert not [path for path in s3_counts.paths if "other" in path]
        shutil.rmtree(copy)
    fsspec.filesystem("s3", **s3_options).rm(f"{BUCKET}/foreign", recursive=True)


def test_another_bucket_that_is_allowed_is_read_with_its_own_options(
    buckets: Path, s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ambient")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    put(buckets, "other/t.lance", s3_options)
    lead_elsewhere(buckets, "s3://other/t.lance/data")
    put(buckets, f"{BUCKET}/foreign/t.lance", s3_options)
    url = f"s3://{BUCKET}/foreign/t.lance"
    rules = BaseRules("any", storage_options={"s3://other": s3_options})
    assert (
        lancefs.open(url, storage_options=s3_options, base_rules=rules).to_table().num_rows == ROWS
    )
    dataset = lancefs.open(url, storage_options=s3_options, base_rules=BaseRules("any"))
    opened = dataset.opened.files.data_file(dataset.opened.manifest.fragments[0].files[0])
    assert opened.store.fs is not dataset.opened.resolved.store.fs
    assert opened.store.fs.key is None
    assert not opened.store.fs.client_kwargs
    fsspec.filesystem("s3", **s3_options).rm(f"{BUCKET}/foreign", recursive=True)


def test_a_clone_in_the_same_bucket_is_read(buckets: Path, s3_options: dict[str, Any]) -> None:
    put(buckets, f"{BUCKET}/far/t.lance", s3_options)
    lead_elsewhere(buckets, f"s3://{BUCKET}/far/t.lance/data")
    put(buckets, f"{BUCKET}/foreign/t.lance", s3_options)
    dataset = lancefs.open(f"s3://{BUCKET}/foreign/t.lance", storage_options=s3_options)
    assert dataset.to_table().num_rows == ROWS
    fsspec.filesystem("s3", **s3_options).rm(f"{BUCKET}/f*", recursive=True)


def test_the_store_of_dynamodb_is_its_bucket(s3_options: dict[str, Any], buckets: Path) -> None:
    pytest.importorskip("s3fs")
    from lancefs.s3_ddb.filesystem import S3DynamoDBFileSystem
    from lancefs.storage.origins import same_origin

    fs = S3DynamoDBFileSystem(ddb_table_name="commits", **s3_options)
    root = "lake/t.lance"
    for url in ("s3://lake/x", "s3a://lake/x", "s3+ddb://lake/x", "lake/x"):
        assert same_origin(fs, root, url) == "lake/x"
    assert same_origin(fs, root, "s3+ddb://lake/x?ddbTableName=commits") == "lake/x"
    for url in ("s3://other/x", "s3+ddb://lake/x?ddbTableName=other", "http://lake/x", "/other/x"):
        assert same_origin(fs, root, url) is None


def test_what_refuses_a_busy_redirect_is_an_error_of_ours(pair: Pair) -> None:
    pair.own.redirect = "http://127.0.0.1:1"
    with pytest.raises(ReadFailed):
        by_dataset(f"{pair.own_url}/t.lance", {}, None)
