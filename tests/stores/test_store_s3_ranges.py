"""Many ranges of one object on S3: the bytes and errors of s3fs, by one signature."""

from __future__ import annotations

import asyncio
import datetime
import gc
import hashlib
import hmac
import ipaddress
import logging
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from aiohttp import web
from comparison import assert_same_table
from s3fs import S3FileSystem
from store_servers import BUCKET, Counts, WebServer, web_server
from support import REPOSITORY

import lancefs
from lancefs.errors import MissingFile, ReadFailed
from lancefs.storage import Store, s3_ranges
from lancefs.storage.filesystems import cat_ranges

DATA = bytes(range(256)) * 40
RANGES = [(500 * i, 500 * i + 100 + i) for i in range(20)]
WANTED = [DATA[start:end] for start, end in RANGES]
KEY = "dir/plain.bin"
ODD = ["a b", "100%", "100%25", "a+b", "a?b=c", "a#b", "ü/✓", "a&b=c;d", "(a)!'*~", "..a/a..b"]


class S3Server(WebServer):
    """An S3 of one bucket, the directory, that may refuse presigned URLs."""

    refuses_urls = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.refuses_urls and "X-Amz-Signature" in request.query:
            self.targets.append(request.raw_path)
            return web.Response(status=403)
        return await super().answer(request)

    @property
    def presigned(self) -> int:
        """Number of requests by a presigned URL."""
        return sum("X-Amz-Signature=" in one for one in self.targets)


@pytest.fixture
def server(tmp_path: Path) -> S3Server:
    path = tmp_path / BUCKET / KEY
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    return S3Server(tmp_path)


@pytest.fixture
def fs(server: S3Server) -> Iterator[S3FileSystem]:
    with web_server(server) as url:
        made = make(url)
        yield made
        made.close_session(made.loop, made._s3creator)


def make(url: str, **options: Any) -> S3FileSystem:
    login = {"key": "test", "secret": "hidden"}
    return S3FileSystem(**{**login, "endpoint_url": url, "skip_instance_cache": True, **options})


def fetch(fs: S3FileSystem, path: str = f"{BUCKET}/{KEY}") -> list[Any]:
    starts, ends = zip(*RANGES, strict=True)
    return cat_ranges(fs)([path] * len(RANGES), list(starts), list(ends), on_error="return")


def by_s3fs(fs: S3FileSystem, path: str = f"{BUCKET}/{KEY}") -> list[Any]:
    starts, ends = zip(*RANGES, strict=True)
    answers: list[Any] = fs.cat_ranges(
        [path] * len(RANGES), list(starts), list(ends), on_error="return"
    )
    return answers


def is_signed(target: str, host: str, secret: str) -> bool:
    """Return whether a URL has the signature that the documentation of S3 describes.

    "Authenticating requests: using query parameters (AWS Signature Version 4)".
    """
    path, _, query = target.partition("?")
    rest, _, signature = query.rpartition("&X-Amz-Signature=")
    (credential,) = parse_qs(query)["X-Amz-Credential"]
    (moment,) = parse_qs(query)["X-Amz-Date"]
    scope = credential.partition("/")[2]
    request = f"GET\n{path}\n{'&'.join(sorted(rest.split('&')))}\nhost:{host}\n\nhost"
    digest = hashlib.sha256(f"{request}\nUNSIGNED-PAYLOAD".encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex() == signature


# What is asked


def test_ranges_of_one_object_come_by_one_signature(fs: S3FileSystem, server: S3Server) -> None:
    assert fetch(fs) == WANTED
    assert server.counts.requests == {"GET": len(RANGES)}
    assert server.presigned == len(RANGES)
    assert len(set(server.targets)) == 1
    assert {one["Range"] for one in server.headers} == {f"bytes={a}-{b - 1}" for a, b in RANGES}
    assert all("Authorization" not in one for one in server.headers)


@pytest.mark.parametrize("name", ["plain", *ODD])
@pytest.mark.parametrize("token", [None, "to/ken+="])
def test_a_url_is_signed_as_s3_wants_it(server: S3Server, name: str, token: str | None) -> None:
    path = server.directory / BUCKET / "dir" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(DATA)
    with web_server(server) as url:
        assert fetch(make(url, token=token), f"{BUCKET}/dir/{name}") == WANTED
    assert server.presigned == len(RANGES)
    target = server.targets[0]
    assert target.startswith(f"/{BUCKET}/dir/{quote(name, safe='/~')}?")
    assert parse_qs(urlsplit(target).query).get("X-Amz-Security-Token") == (token and [token])
    assert is_signed(target, server.headers[0]["Host"], "hidden")
    assert not is_signed(target, server.headers[0]["Host"], "other")


def test_moto_gives_the_same_bytes_for_as_many_requests(
    s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    fs = fsspec.filesystem("s3", **s3_options)
    for name in ODD:
        fs.pipe_file(f"{BUCKET}/odd/{name}", DATA)
        s3_counts.clear()
        assert fetch(fs, f"{BUCKET}/odd/{name}") == WANTED
        ours = s3_counts.requests.copy(), s3_counts.bytes
        s3_counts.clear()
        assert by_s3fs(fs, f"{BUCKET}/odd/{name}") == WANTED
        assert ours == (s3_counts.requests, s3_counts.bytes)
    fs.rm(f"{BUCKET}/odd", recursive=True)


def test_anonymous_requests_are_not_signed(server: S3Server) -> None:
    with web_server(server) as url:
        assert fetch(make(url, anon=True, key=None, secret=None)) == WANTED
    assert set(server.targets) == {f"/{BUCKET}/{KEY}"}
    assert all("Authorization" not in one for one in server.headers)
    assert "aiobotocore" not in server.headers[0]["User-Agent"]


@pytest.mark.parametrize(
    ("options", "host"),
    [
        ({"client_kwargs": {"region_name": "eu-west-1"}}, "lake.s3.eu-west-1.amazonaws.com"),
        (
            {
                "client_kwargs": {"region_name": "eu-west-1"},
                "config_kwargs": {"s3": {"addressing_style": "path"}},
            },
            "s3.eu-west-1.amazonaws.com",
        ),
        (
            {
                "endpoint_url": "https://store.example:9000",
                "config_kwargs": {"s3": {"addressing_style": "virtual"}},
            },
            "lake.store.example:9000",
        ),
    ],
)
def test_a_url_is_that_of_requests(options: dict[str, Any], host: str) -> None:
    """By itself, botocore presigns with an older signature, and for a global endpoint."""
    fs = make("", **{"endpoint_url": None, **options})
    before = fs.url(f"{BUCKET}/{KEY}")
    url = fsspec.asyn.sync(fs.loop, s3_ranges._presigned, fs, f"{BUCKET}/{KEY}")
    assert url.startswith(f"https://{host}/")
    assert parse_qs(urlsplit(url).query)["X-Amz-SignedHeaders"] == ["host"]
    after = fs.url(f"{BUCKET}/{KEY}")  # what a user asks for stays as it was
    assert urlsplit(after).netloc == urlsplit(before).netloc
    assert set(parse_qs(urlsplit(after).query)) == set(parse_qs(urlsplit(before).query))


def test_few_ranges_and_other_ones_go_by_s3fs_in_the_same_batch(
    fs: S3FileSystem, server: S3Server
) -> None:
    (server.directory / BUCKET / "other").write_bytes(DATA)
    many, few = [f"{BUCKET}/{KEY}"] * 20, [f"{BUCKET}/other"] * (s3_ranges.FEWEST - 1)
    paths = [*many, *few, f"{BUCKET}/{KEY}"]
    starts: list[Any] = [*(start for start, _ in RANGES), *range(len(few)), -5]
    ends: list[Any] = [*(end for _, end in RANGES), *(i + 3 for i in range(len(few))), None]
    found = cat_ranges(fs)(paths, starts, ends, on_error="return")
    assert found == [DATA[start:end] for start, end in zip(starts, ends, strict=True)]
    assert server.presigned == len(many)
    server.targets.clear()
    fetched = cat_ranges(fs)(few, [0] * len(few), [9] * len(few), on_error="return")
    assert fetched == [DATA[:9]] * len(few)
    assert server.presigned == 0


class Derived(S3FileSystem):  # type: ignore[misc]
    """A filesystem that may do anything."""


SPECIAL: dict[str, Callable[[str], S3FileSystem]] = {
    "requester pays": lambda url: make(url, requester_pays=True),
    "versions": lambda url: make(url, version_aware=True),
    "parameters": lambda url: make(url, s3_additional_kwargs={"ExpectedBucketOwner": "1"}),
    "verify": lambda url: make(url, client_kwargs={"verify": False}),
    "proxies": lambda url: make(url, config_kwargs={"proxies": {}}),
    "certificate": lambda url: make(url, config_kwargs={"client_cert": None}),
    "old signature": lambda url: make(url, config_kwargs={"signature_version": "s3"}),
    "session": lambda url: make(url, session=_session()),
    "positions": lambda url: S3FileSystem(False, url, "test", "hidden", skip_instance_cache=True),
    "derived": lambda url: Derived(key="test", secret="hidden", endpoint_url=url),
}


@pytest.mark.parametrize("made", SPECIAL.values(), ids=SPECIAL)
def test_requests_that_are_more_than_a_url_go_by_s3fs(
    server: S3Server, made: Callable[[str], S3FileSystem]
) -> None:
    with web_server(server) as url:
        assert fetch(made(url)) == WANTED
    assert server.presigned == 0
    assert len(server.targets) == len(RANGES)


def _session() -> Any:
    import aiobotocore.session

    return aiobotocore.session.AioSession()


def test_a_proxy_is_not_passed_by(
    fs: S3FileSystem, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    with web_server(server) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        assert fsspec.asyn.sync(fs.loop, s3_ranges._presigned, fs, f"{BUCKET}/{KEY}") is None
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert fsspec.asyn.sync(fs.loop, s3_ranges._presigned, fs, f"{BUCKET}/{KEY}")


def test_there_are_no_more_connections_than_the_filesystem_may_have(server: S3Server) -> None:
    under_way = most = 0
    answer = server.answer

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return await answer(request)

    server.answer = counted  # type: ignore[method-assign]
    with web_server(server) as url:
        assert fetch(make(url, config_kwargs={"max_pool_connections": 3})) == WANTED
        assert most <= 3
        assert fetch(make(url)) == WANTED
        assert most <= 10


# What is answered


def test_a_missing_object_is_missing(fs: S3FileSystem, server: S3Server) -> None:
    answers = fetch(fs, f"{BUCKET}/none")
    assert {type(one) for one in answers} == {FileNotFoundError}
    assert server.presigned <= 10  # one for each connection
    with pytest.raises(MissingFile, match="none"):
        Store(fs, BUCKET).fetch([("none", start, end) for start, end in RANGES])
    assert fetch(fs) == WANTED
    assert server.presigned > len(RANGES)


def test_what_is_refused_is_a_permission_error(fs: S3FileSystem, server: S3Server) -> None:
    server.failures = [403] * 1000
    assert {type(one) for one in fetch(fs)} == {PermissionError}
    server.failures = []
    assert fetch(fs) == WANTED
    assert server.presigned >= len(RANGES)  # URLs were worth no less


@pytest.mark.parametrize("failure", [500, 503, 404, 0, 204])
def test_one_failure_is_asked_again(fs: S3FileSystem, server: S3Server, failure: int) -> None:
    server.failures = [failure]
    assert fetch(fs) == WANTED
    server.failures = [failure] * 5
    assert fetch(fs) == WANTED


def test_a_store_that_refuses_urls_is_asked_by_them_once(
    fs: S3FileSystem, server: S3Server
) -> None:
    server.refuses_urls = True
    assert fetch(fs) == WANTED
    assert 0 < server.presigned <= 10
    server.targets.clear()
    assert fetch(fs) == WANTED
    assert server.presigned == 0
    server.refuses_urls = False


def test_a_store_that_gives_no_ranges_is_named(fs: S3FileSystem, server: S3Server) -> None:
    server.ranges = False
    assert fetch(fs) == [DATA] * len(RANGES)
    with pytest.raises(ReadFailed, match="does not answer requests for parts of a file"):
        Store(fs, BUCKET).fetch([(KEY, start, end) for start, end in RANGES])


@pytest.mark.parametrize(
    ("content", "body"),
    [
        ("bytes 1-100/10240", DATA[1:101]),
        ("bytes 0-99/10240", DATA[:50]),
        ("bytes 0-99/10240", DATA),
        ("", DATA[:100]),
    ],
)
def test_other_ranges_than_the_wanted_one_are_not_taken(
    fs: S3FileSystem, server: S3Server, content: str, body: bytes
) -> None:
    answer = server.answer

    async def wrong(request: web.Request) -> web.StreamResponse:
        if "X-Amz-Signature" in request.query and request.headers["Range"] == "bytes=0-99":
            headers = {"Content-Range": content} if content else {}
            return web.Response(status=206, body=body, headers=headers)
        return await answer(request)

    server.answer = wrong  # type: ignore[method-assign]
    assert fetch(fs) == WANTED


def test_a_signature_does_not_follow_a_redirect(fs: S3FileSystem, server: S3Server) -> None:
    other = S3Server(server.directory)
    with web_server(other) as url:
        server.redirect = url
        fetch(fs)
    assert server.presigned
    assert other.presigned == 0


def test_no_signature_is_in_a_log_or_an_error(
    fs: S3FileSystem, server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "lancefs")
    server.failures = [403] * 1000
    with pytest.raises(ReadFailed) as caught:
        Store(fs, BUCKET).fetch([(KEY, start, end) for start, end in RANGES])
    server.failures = [0] * 20  # aiohttp tries again by itself where a connection was used before
    fetch(fs)
    said = f"{caught.value!r} {caught.value.__cause__!r}" + caplog.text
    assert "gave no range: status 403" in said
    assert "gave no range: ServerDisconnectedError" in said
    assert "Signature" not in said


def test_ends_of_a_short_object_are_what_s3fs_gives(fs: S3FileSystem, server: S3Server) -> None:
    (server.directory / BUCKET / KEY).write_bytes(DATA[:3050])
    assert fetch(fs)[:7] == [DATA[:3050][start:end] for start, end in RANGES[:7]]


def test_credentials_that_are_not_there_are_what_s3fs_says(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(server.directory))
    with web_server(server) as url:
        answers = fetch(make(url, key=None, secret=None))
    assert {type(one).__name__ for one in answers} == {"NoCredentialsError"}


# TLS


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    """A server's side of TLS, and the file of the certificate that verifies it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    public = key.public_key()
    made = (
        x509.CertificateBuilder(name, name, public, 1, now - day, now + day)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(secret)
    (folder / "ca.pem").write_bytes(made.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context, str(folder / "ca.pem")


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_a_server_is_verified_as_s3fs_does_it(
    server: S3Server,
    tls: tuple[ssl.SSLContext, str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with web_server(server, tls[0]) as url:
        wanted = [(KEY, start, end) for start, end in RANGES]
        unknown = make(url, config_kwargs={"retries": {"max_attempts": 0}})
        unknown.retries = 1
        assert all(isinstance(one, Exception) for one in fetch(unknown))
        assert server.targets == []
        monkeypatch.setenv(name, tls[1])
        found = Store(make(url), BUCKET).fetch(wanted)
    assert [one.tobytes() for one in found] == WANTED
    assert server.presigned == len(RANGES)


# What is left


def test_a_session_is_closed_with_its_filesystem(server: S3Server) -> None:
    with web_server(server) as url:
        fs = make(url)
        assert fetch(fs) == WANTED
        session = getattr(fs, s3_ranges._STATE).session
        assert fetch(fs) == WANTED
        assert getattr(fs, s3_ranges._STATE).session is session
        assert not session.closed
        del fs
        end = time.monotonic() + 20
        while not session.closed and time.monotonic() < end:
            gc.collect()
            time.sleep(0.01)
        assert session.closed


# Reads, forks a child that leaves in the usual way, and reads again.
PROGRAM = """
import os, sys, warnings
warnings.simplefilter("always")
from s3fs import S3FileSystem
from lancefs.storage import Store
def read(store):
    found = store.fetch([("plain.bin", 500 * i, 500 * i + 100) for i in range(20)])
    assert all(len(one) == 100 for one in found)
options = dict(key="test", secret="hidden", endpoint_url=sys.argv[1])
fs = S3FileSystem(**options, skip_instance_cache=sys.argv[2] == "skip")
store = Store(fs, "lake/dir")
read(store)
if sys.argv[3] == "fork":
    child = os.fork()
    if child == 0:
        read(store)
        read(Store(S3FileSystem(**options), "lake/dir"))
        sys.exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
read(store)
print("done")
"""


@pytest.mark.parametrize("skips", ["skip", "cache"])
@pytest.mark.parametrize("forks", ["fork", "alone"])
def test_a_process_ends_without_a_word(server: S3Server, skips: str, forks: str) -> None:
    if forks == "fork" and not hasattr(os, "fork"):
        pytest.skip("needs fork")
    with web_server(server) as url:
        command = [sys.executable, "-c", PROGRAM, url, skips, forks]
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert "aiohttp" not in done.stderr
    assert "nclosed" not in done.stderr
    assert server.presigned == len(RANGES) * (4 if forks == "fork" else 2)


# Tables


def test_the_first_rows_of_a_wide_table(
    s3_options: dict[str, Any], s3_counts: Counts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    wide = pa.table({f"c{i}": rng.integers(0, 2**60, 30_000) for i in range(20)})
    lance.write_dataset(wide, tmp_path / "wide.lance")
    fs = fsspec.filesystem("s3", **s3_options)
    fs.put(str(tmp_path / "wide.lance"), f"{BUCKET}/wide/t.lance", recursive=True)
    s3_counts.clear()
    options = {**s3_options, "skip_instance_cache": True}
    ours = lancefs.open(f"s3://{BUCKET}/wide/t.lance", storage_options=options).head(10)
    assert_same_table(ours, wide.slice(0, 10))
    requests = s3_counts.requests.copy()
    assert requests["GET"] > 20
    monkeypatch.setattr(s3_ranges, "FEWEST", 1000)
    s3_counts.clear()
    lancefs.open(f"s3://{BUCKET}/wide/t.lance", storage_options=options).head(10)
    assert s3_counts.requests == requests
    fs.rm(f"{BUCKET}/wide", recursive=True)
