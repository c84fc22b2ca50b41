"""Stores that fail: which requests are retried, and the errors if retries do not help."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from comparison import assert_same_table
from fsspec.implementations.memory import MemoryFileSystem
from store_doubles import (
    Answer,
    CountingFileSystem,
    TroubledFileSystem,
    cut_short,
    refuse,
    time_out,
)
from store_servers import WebServer, web_server

import lancefs
from lancefs.errors import CorruptFile, LanceError, MissingFile, NotALanceTable, ReadFailed
from lancefs.filesystem import LanceFileSystem
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.storage.retries import Attempts, is_transient, retry
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve
from lancefs.views.arrow import measures

TROUBLES = {"refused": refuse, "timeout": time_out, "short": cut_short}


@pytest.fixture
def store(home: Path) -> Iterator[TroubledFileSystem]:
    """A store with the table as `/t.lance`, which fails once a test sets `answer`."""
    fs = TroubledFileSystem()
    fs.store.clear()
    fs.put_tree(str(home / "t.lance"), "/t.lance")
    yield fs
    fs.store.clear()


def open_in(store: TroubledFileSystem) -> LanceDataset:
    resolved = resolve(Store(store, "/t.lance"))
    return LanceDataset(OpenVersion(resolved))


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=list(TROUBLES))
def test_every_third_request_may_fail(
    trouble: Answer, store: TroubledFileSystem, expected: pa.Table
) -> None:
    store.answer = trouble
    assert_same_table(open_in(store).to_table(), expected)
    fs = LanceFileSystem(fo="/t.lance", fs=store)
    shown = pa.ipc.open_stream(fs.cat("latest.arrows")).read_all()
    assert_same_table(shown, expected)
    with fs.open("latest.arrow") as file:
        assert_same_table(pa.ipc.open_file(file).read_all(), expected)


@pytest.mark.parametrize(
    ("trouble", "error", "message"),
    [
        (refuse, ReadFailed, r"data/.*\.lance: bytes \d+–\d+: .*reduce your request rate"),
        (time_out, ReadFailed, r"data/.*\.lance: bytes \d+–\d+: TimeoutError"),
        (cut_short, CorruptFile, r"data/.*\.lance: .*it was cut short"),
    ],
    ids=list(TROUBLES),
)
def test_a_store_that_goes_on_failing_is_named(
    trouble: Answer, error: type[LanceError], message: str, store: TroubledFileSystem
) -> None:
    dataset = open_in(store)
    list(dataset.to_batches(columns=["n0"], limit=1))  # deletion files are read
    store.answer, store.every = trouble, 1
    before = len(store.requests)
    with pytest.raises(error, match=message):
        dataset.to_table(columns=["n5"], limit=1)
    assert len(store.requests) - before <= 5


def test_a_denied_request_is_not_retried(store: TroubledFileSystem) -> None:
    dataset = open_in(store)
    list(dataset.to_batches(columns=["n0"], limit=1))  # deletion files are read

    def forbid(path: str, data: bytes) -> bytes:
        raise PermissionError(errno.EACCES, "Access Denied")

    store.answer, store.every = forbid, 1
    before = len(store.requests)
    with pytest.raises(ReadFailed, match="Access Denied"):
        dataset.to_table(columns=["n5"], limit=1)
    assert len(store.requests) - before == 1


def test_a_file_that_is_lost_during_a_scan(store: TroubledFileSystem) -> None:
    dataset = open_in(store)
    last = dataset.fragments[2].files[0].path
    batches = dataset.to_batches(batch_size=1000)
    assert next(batches).num_rows > 0
    store.rm_file(f"/t.lance/data/{last}")
    with pytest.raises(MissingFile, match=rf"{last}: the file is gone"):
        list(batches)


def test_a_file_that_is_lost_while_a_view_is_read(store: TroubledFileSystem) -> None:
    measures._ARRAYS.clear()
    fs = LanceFileSystem(fo="/t.lance", fs=store)
    with fs.open("latest.arrow") as file:
        reader = pa.ipc.open_file(file)
        fragment = fs._find("latest").node.handle.version.manifest.fragments[2]
        store.rm_file(f"/t.lance/data/{fragment.files[0].path}")
        with pytest.raises(OSError, match="the file is gone"):
            reader.read_all()


def test_a_view_reads_its_own_store_where_another_one_has_the_same_arguments(
    store: TroubledFileSystem, home: Path, expected: pa.Table
) -> None:
    other = TroubledFileSystem()
    other.put_tree(str(home / "t.lance"), "/t.lance")
    for fs in (LanceFileSystem(fo="/t.lance", fs=one) for one in (store, other)):
        with fs.open("latest.arrow") as file:
            assert_same_table(pa.ipc.open_file(file).read_all(), expected)
        measures._ARRAYS.clear()
        store.store.clear()


class OneErrorForAll(CountingFileSystem):
    """A store whose answer to several requests is the first error of one of them, as obstore's."""

    protocol = "one-error"

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, **options: Any) -> list[Any]:
        answers = super().cat_ranges(paths, starts, ends, **options | {"on_error": "return"})
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


@pytest.mark.parametrize("gone", ["a", "b", "c"])
def test_the_missing_file_is_named_where_the_store_does_not_say_which(gone: str) -> None:
    fs = OneErrorForAll()
    fs.store.clear()
    for name in {"a", "b", "c"} - {gone}:
        fs.pipe(f"/t/{name}", b"0123456789")
    store = Store(fs, "/t")
    with pytest.raises(MissingFile, match=f"/t/{gone}: the file is gone"):
        store.fetch([(name, 0, 10) for name in "abc"])
    fs.store.clear()


def test_transient_errors_of_client_libraries() -> None:
    class ServerTimeoutError(Exception):
        __module__ = "aiohttp.client_exceptions"

    class ClientResponseError(Exception):
        __module__ = "aiohttp.client_exceptions"
        status = 503

    passing: list[BaseException] = [
        ServerTimeoutError(),
        ClientResponseError(),
        ConnectionResetError(),
        OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)),
        OSError("some filesystem"),
    ]
    assert all(map(is_transient, passing))
    ClientResponseError.status = 404
    for name, module in [
        ("RemoteProtocolError", "httpx"),
        ("ReadError", "httpcore"),
        ("ConnectionLost", "asyncssh.misc"),
    ]:
        assert is_transient(type(name, (Exception,), {"__module__": module})())
    final: list[BaseException] = [
        ClientResponseError(),
        FileNotFoundError("x"),
        PermissionError("x"),
        OSError(errno.EINVAL, "x"),
        NotImplementedError(),
        ValueError(),
    ]
    assert not any(map(is_transient, final))


@pytest.mark.parametrize(("seconds", "times"), [(0.0, 5), (6.0, 1)])
def test_a_server_that_is_not_there_is_not_asked_for_long(
    seconds: float, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client library may have tried for some seconds itself, as that of s3fs does."""
    monkeypatch.setattr(Attempts, "seconds", property(lambda _: seconds))
    asked: list[None] = []

    def ask() -> None:
        asked.append(None)
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    with pytest.raises(ReadFailed, match=r"refused; check the address"):
        retry(ask, "s3://lake/t.lance")
    assert len(asked) == times


def test_a_server_that_is_not_there_is_asked_once_for_a_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any directory on the way to a file could be the table."""
    monkeypatch.setattr(Attempts, "seconds", property(lambda _: 6.0))
    asked: list[str] = []

    class Gone(MemoryFileSystem):
        cachable = False

        def ls(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
            asked.append(path)
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    fs = LanceFileSystem(fo="/t.lance", fs=Gone())
    with pytest.raises(ReadFailed, match=r"t\.lance.*refused; check the address"):
        fs.open("latest.arrow")
    assert len(asked) == 1


def test_a_server_without_tls_is_not_asked_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    botocore = pytest.importorskip("botocore.exceptions")
    monkeypatch.setattr(Attempts, "seconds", property(lambda _: 6.0))
    asked: list[None] = []

    def ask() -> None:
        asked.append(None)
        raise botocore.SSLError(endpoint_url="https://s3", error="wrong version number")

    with pytest.raises(ReadFailed, match=r"wrong version number; check the address"):
        retry(ask, "s3://lake/t.lance")
    assert len(asked) == 1


def test_an_option_that_a_store_does_not_know_is_no_matter_of_listing(
    s3_options: dict[str, Any],
) -> None:
    options = {**s3_options, "aws_access_key_id": "x"}
    with pytest.raises(ReadFailed, match=r"id', which s3fs calls key; check the st\w+ options$"):
        lancefs.open("s3://lake/t.lance", storage_options=options)


class FailingListings(CountingFileSystem):
    """A store whose first listings are refused."""

    refused = 2
    error: Exception = OSError(errno.EIO, "reduce your request rate")

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        if self.refused:
            self.refused -= 1
            raise self.error
        return super().ls(path, detail=detail, **kwargs)


def test_a_folder_of_tables_is_listed_again_where_that_fails(home: Path) -> None:
    store = FailingListings()
    store.store.clear()
    store.put_tree(str(home / "t.lance"), "/lake/t.lance")
    fs = LanceFileSystem(fo="/lake", fs=store)
    store.refused = 2
    assert [name.rpartition("/")[2] for name in fs.ls("", detail=False)] == ["t.lance"]
    store.refused, store.error = 99, RuntimeError("of a client library")
    store.dircache.clear()
    with pytest.raises(ReadFailed, match="lake: of a client library"):
        LanceFileSystem(fo="/lake", fs=store, skip_instance_cache=True).ls("", detail=False)
    store.refused = 0
    store.store.clear()


def test_missing_credentials_are_asked_for(
    store: TroubledFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    botocore = pytest.importorskip("botocore.exceptions")

    def without_credentials(*_: Any, **__: Any) -> None:
        raise botocore.NoCredentialsError

    monkeypatch.setattr(store, "ls", without_credentials)
    with pytest.raises(ReadFailed, match=r"cannot be listed: .*; give the store credentials") as no:
        open_in(store)
    assert str(no.value).endswith("or the storage option anon=true if it is public")


def test_a_library_that_is_not_found_is_said_without_all_places_where_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pyarrow tells some ninety of them where HDFS has no Java, in lines of their own."""

    def look_for(*_: object, **__: object) -> None:
        raise OSError("Unable to load libjvm" + "\ndlopen(/usr/lib/libjvm.so) failed: none" * 90)

    monkeypatch.setattr(MemoryFileSystem, "__init__", look_for)
    MemoryFileSystem.clear_instance_cache()
    with pytest.raises(ReadFailed) as error:
        lancefs.open("memory://t.lance")
    assert "cannot be opened: Unable to load libjvm; check" in str(error.value)


def s3_error(code: str, text: str, status: int = 400) -> BaseException:
    """Return what s3fs raises in place of an error of botocore."""
    errors = pytest.importorskip("s3fs.errors")
    botocore = pytest.importorskip("botocore.exceptions")
    answer = {
        "Error": {"Code": code, "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    error = errors.translate_boto_error(botocore.ClientError(answer, "ListObjectsV2"))
    assert isinstance(error, BaseException)
    return error


def azure_error(code: str, status: int) -> BaseException:
    """Return an error as Azure's client makes it: four lines, two of them about the request."""
    text = f"Not this way.\nRequestId:34e9a070\nTime:2026-11-30T07:50:29.555Z\nErrorCode:{code}"
    error = Exception(text)
    vars(error).update(error_code=code, status_code=status)
    return error


def google_error(code: int, text: str) -> BaseException:
    """Return an error as gcsfs makes it."""
    error = Exception(f"{text}, {code}")
    vars(error).update(code=code)
    return error


def web_error(status: int, text: str) -> BaseException:
    """Return an error as fsspec's filesystem of web servers has it."""
    import aiohttp
    import yarl
    from multidict import CIMultiDict, CIMultiDictProxy

    request = aiohttp.RequestInfo(yarl.URL("http://lake/o"), "GET", CIMultiDictProxy(CIMultiDict()))
    error = aiohttp.ClientResponseError(request, (), status=status, message=text)
    assert isinstance(error, BaseException)
    return error


RENEW = "; renew or correct the credentials that the store is given"
LIST = "; where the store does not let you list, name the version, as in version=7"
BUSY = "; the store is busy: try again later"
LATER = "; the store, or a proxy in front of it, fails: try again later"
REFUSED = "; the store does not let you read it: have that allowed, or give other credentials"
LOGIN = (
    '; give the server a login, as in storage_options={"headers": {"Authorization": "Bearer …"}}'
)
ADVICE = {
    "expired": (lambda: s3_error("ExpiredToken", "It has expired"), RENEW),
    "wrong-key": (lambda: s3_error("SignatureDoesNotMatch", "It does not match"), RENEW),
    "other-region": (
        lambda: s3_error("AuthorizationHeaderMalformed", "expecting 'eu-west-1'"),
        "; name the region of the bucket, as in AWS_DEFAULT_REGION=eu-west-1",
    ),
    "busy": (
        lambda: s3_error("SlowDown", "Reduce your rate"),
        BUSY,
    ),
    "denied": (lambda: s3_error("AccessDenied", "Access Denied"), LIST),
    "azure": (lambda: azure_error("AuthenticationFailed", 403), RENEW),
    "azure-denied": (lambda: azure_error("AuthorizationPermissionMismatch", 403), LIST),
    "azure-firewall": (lambda: azure_error("AuthorizationFailure", 403), LIST),
    "azure-public": (
        lambda: azure_error("PublicAccessNotPermitted", 409),
        "; give the store credentials, or the storage option anon=true if it is public",
    ),
    "google-denied": (lambda: OSError("Forbidden: lake/o\nno access"), LIST),
    "proxy": (lambda: s3_error("502", "Bad Gateway", 502), LATER),
    "proxy-login": (
        lambda: s3_error("", "", 407),
        "; a proxy wants a login: put it into the URL of the proxy, in HTTPS_PROXY",
    ),
    "no-store": (
        lambda: KeyError("IsTruncated"),
        "; check the address, the network and the storage options",
    ),
    "web-login": (lambda: web_error(401, "Unauthorized"), LOGIN),
    "web-busy": (lambda: web_error(429, "Too Many Requests"), BUSY),
    "web-down": (lambda: web_error(500, "Internal Server Error"), LATER),
    "azure-nobody": (
        lambda: azure_error("NoAuthenticationInformation", 401),
        "; give the store credentials, or the storage option anon=true if it is public",
    ),
    "endpoint": (lambda: ValueError("Invalid endpoint: s3"), "; check the storage options"),
    "google": (
        lambda: google_error(401, "Invalid Credentials"),
        "; give the store credentials, or the storage option anon=true if it is public",
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_a_refused_listing_says_in_one_line_what_helps(
    name: str, store: TroubledFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, advice = ADVICE[name]
    monkeypatch.setattr("lancefs.storage.retries.PAUSE", 0.0)

    def refused(*_: Any, **__: Any) -> None:
        raise make()

    monkeypatch.setattr(store, "ls", refused)
    with pytest.raises(ReadFailed, match="cannot be listed: ") as no:
        open_in(store)
    said = str(no.value)
    assert said.endswith(advice)
    assert said.count("; ") == 1
    assert "\n" not in said
    assert "RequestId" not in said
    assert "Errno" not in said


def test_refused_credentials_are_told_where_bytes_are_read(
    store: TroubledFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = open_in(store)

    def refused(*_: Any, **__: Any) -> None:
        raise s3_error("ExpiredToken", "It has expired")

    monkeypatch.setattr(store, "cat_file", refused)
    with pytest.raises(ReadFailed, match=r"\.lance: bytes .*: It has expired; renew or correct"):
        orders.to_table()


DENIED: dict[str, Callable[[], BaseException]] = {
    "s3": lambda: s3_error("AccessDenied", "Access Denied", 403),
    "s3-head": lambda: s3_error("403", "Forbidden", 403),
    "azure": lambda: azure_error("AuthorizationFailure", 403),
    "google": lambda: OSError("Forbidden: lake/o\nno access"),
    "web": lambda: web_error(403, "Forbidden"),
}


@pytest.mark.parametrize("name", DENIED)
def test_what_helps_is_said_of_one_file_that_may_not_be_read(
    name: str, store: TroubledFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = open_in(store)
    asked: list[str] = []

    def refused(path: str, *_: Any, **__: Any) -> None:
        asked.append(path)
        raise DENIED[name]()

    monkeypatch.setattr(store, "cat_file", refused)
    with pytest.raises(ReadFailed, match=r"/data/\w+\.lance: bytes ") as no:
        orders.to_table(columns=["n0"])
    assert str(no.value).endswith(REFUSED)
    assert len(asked) == len(set(asked))  # none again, as it would be refused again


def test_a_page_to_log_in_is_not_taken_for_a_damaged_file(
    home: Path, store: TroubledFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Portals answer every request with it, and with the status of success."""
    page = b"\n<!DOCTYPE html>\n<html><h1>Log in</h1></html>"
    orders = open_in(store)
    monkeypatch.setattr("lancefs.storage.retries.PAUSE", 0.0)
    monkeypatch.setattr(store, "cat_file", lambda *_, **__: page)
    with pytest.raises(ReadFailed, match=r"\.lance: bytes .*: it is a web page"):
        orders.to_table()
    shutil.copytree(home / "t.lance", tmp_path / "t.lance")
    for path in (tmp_path / "t.lance" / "_versions").iterdir():
        path.write_bytes(page)
    with web_server(WebServer(tmp_path)) as url, pytest.raises(ReadFailed, match="a web page"):
        lancefs.open(f"{url}/t.lance")


def test_a_missing_bucket_is_named(s3_options: dict[str, Any]) -> None:
    with pytest.raises(NotALanceTable, match="The specified bucket does not exist"):
        lancefs.open("s3://pond/t.lance", storage_options=s3_options)


def test_a_store_without_credentials_is_asked_once_for_a_path() -> None:
    """Any directory on the way to a file could be the table."""
    asked: list[str] = []

    class Unknown(MemoryFileSystem):
        cachable = False

        def ls(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
            asked.append(path)
            raise google_error(401, "Invalid Credentials")

    fs = LanceFileSystem(fo="/t.lance", fs=Unknown())
    with pytest.raises(ReadFailed, match=r"t\.lance.*; give the store credentials"):
        fs.open("latest.arrow")
    assert len(asked) == 1


def test_a_wrong_password_is_told_from_a_wrong_address() -> None:
    """paramiko is not among the packages of the tests: this is its error, by its name."""

    class Locked(MemoryFileSystem):
        protocol = "locked"

        def __init__(self, **kwargs: Any) -> None:
            named = {"__module__": "paramiko.ssh_exception"}
            raise type("AuthenticationException", (Exception,), named)("Authentication failed.")

    fsspec.register_implementation("locked", Locked, clobber=True)
    with pytest.raises(ReadFailed, match=r"failed\.; renew or correct the credentials") as no:
        lancefs.open("locked://me:hunter2@host/t.lance")
    assert "hunter2" not in str(no.value)


def test_a_store_that_cannot_be_made_names_the_url_and_the_options() -> None:
    class Needy(MemoryFileSystem):
        protocol = "needy"

        def __init__(self, **kwargs: Any) -> None:
            raise ValueError("Must provide an account")

    fsspec.register_implementation("needy", Needy, clobber=True)
    with pytest.raises(ValueError, match=r"^needy://a/t\.lance: Must .*; check the storage opt"):
        lancefs.open("needy://a/t.lance")
    with pytest.raises(ValueError, match=r"^needy://a/t\.lance: Must .*; check the storage opt"):
        fsspec.open("lance://latest.arrow::needy://a/t.lance").open()
