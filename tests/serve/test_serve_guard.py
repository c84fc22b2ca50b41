"""Who may ask the server, for what, and how many at once."""

from __future__ import annotations

import base64
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import lance
import numpy as np
import pyarrow as pa
import pytest
import uvicorn
from serving import Served, serving

from lancefs.filesystem import LanceFileSystem

TOKEN = "a secret, of 24 letters"
# Bytes that no server has sent to a client that takes nothing: what the buffers between them hold,
# some megabytes, is sent.
LONGER_THAN_BUFFERS = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guard") / "t.lance"
    lance.write_dataset(pa.table({"a": range(200_000)}), path)
    return path


@pytest.fixture(scope="module")
def locked(path: Path) -> Iterator[Served]:
    with serving(path, token=TOKEN) as one:
        yield one


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "X"])
def test_nothing_can_be_changed(served: Served, method: str) -> None:
    answer = served.ask("/", method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


def test_without_a_token_nothing_is_told(locked: Served) -> None:
    for path in ("/", "/t.lance/", "/t.lance/latest.arrow", "/none", f"/?token={quote(TOKEN)}"):
        answer = locked.ask(path)
        assert answer.status == 401
        assert "Bearer" in answer.headers["www-authenticate"]
        assert "t.lance" not in answer.text


@pytest.mark.parametrize(
    "shown",
    [
        f"Bearer {TOKEN}",
        f"bearer  {TOKEN}",
        f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}",
    ],
)
def test_the_token_opens(locked: Served, shown: str) -> None:
    assert locked.ask("/t.lance/latest.arrow", Authorization=shown).status == 200


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Token {TOKEN}",
        TOKEN,
        "Basic ****",
        f"Basic {base64.b64encode(TOKEN.encode()).decode()}",
        "Bearer \xff",
    ],
)
def test_anything_but_the_token_is_refused(locked: Served, shown: str) -> None:
    assert locked.ask("/t.lance/latest.arrow", Authorization=shown).status == 401


def test_scripts_of_other_origins_may_read(served: Served) -> None:
    answer = served.ask("/", Origin="https://shell.duckdb.org")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers
    for name in ("Content-Range", "Content-Length", "Accept-Ranges", "ETag"):
        assert name in answer.headers["access-control-expose-headers"]


def test_a_browser_may_ask_before_it_asks(locked: Served) -> None:
    answer = locked.ask(
        "/t.lance/latest.arrow",
        "OPTIONS",
        Origin="https://shell.duckdb.org",
        Access_Control_Request_Method="HEAD",
        Access_Control_Request_Headers="range, authorization",
        Access_Control_Request_Private_Network="true",
    )
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "HEAD" in answer.headers["access-control-allow-methods"]
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert answer.headers["access-control-allow-private-network"] == "true"
    refused = locked.ask(
        "/", "OPTIONS", Origin="https://x.org", Access_Control_Request_Method="DELETE"
    )
    assert refused.status == 400


def test_beyond_the_limit_requests_are_told_to_come_again(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": np.arange(LONGER_THAN_BUFFERS // 8)}), path)
    with serving(path, most_requests=1) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.connect(server.address)
        slow.sendall(b"GET /t.lance/latest.arrow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(12) == b"HTTP/1.1 200"  # and takes nothing of the rest
        answer = server.ask("/")
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        slow.close()
        given_up = time.monotonic() + 30
        while server.ask("/").status != 200:
            assert time.monotonic() < given_up, "a client that went away still counts"
            time.sleep(0.01)


def test_a_client_that_takes_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": np.arange(LONGER_THAN_BUFFERS // 8)}), path)
    monkeypatch.setattr("lancefs.serve.files._STALLED", 0.2)
    with serving(path) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.connect(server.address)
        slow.sendall(b"GET /t.lance/latest.arrow HTTP/1.1\r\nHost: x\r\n\r\n")
        until = time.monotonic() + 30
        while not server.told and time.monotonic() < until:
            time.sleep(0.01)
        assert server.told == ["a client took nothing for 0.2 seconds: its answer was cut short"]


def test_a_header_without_an_end_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a package is installed with which uvicorn would keep all of it."""
    monkeypatch.setitem(uvicorn.config.HTTP_PROTOCOLS, "auto", "no.such:protocol")
    with serving(path) as server, socket.create_connection(server.address, 30) as client:
        with suppress(ConnectionError):  # it need not take all of them
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
            for _ in range(64):
                client.sendall(b"a" * 100_000)
        with suppress(ConnectionError):
            assert client.recv(12) == b"HTTP/1.1 400"
        assert server.ask("/").status == 200


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost:"])
def test_a_client_that_does_not_ask_is_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr("lancefs.serve.running._SILENT", 0.2)
    with serving(path) as server, socket.create_connection(server.address, 30) as client:
        client.sendall(said)
        assert _ends(client)
        # Asking may take longer than that on a busy machine.
        monkeypatch.setattr("lancefs.serve.running._SILENT", 30)
        assert server.ask("/").status == 200


def test_a_client_that_takes_its_time_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": np.arange(LONGER_THAN_BUFFERS // 8)}), path)
    size = LanceFileSystem(str(path)).size("latest.arrow")
    monkeypatch.setattr("lancefs.serve.running._SILENT", 1)
    with serving(path) as server:
        client = http.client.HTTPConnection(*server.address, timeout=30)
        client.request("GET", "/t.lance/latest.arrow")
        answer = client.getresponse()
        began, taken = time.monotonic(), len(answer.read(1000))
        while time.monotonic() - began < 3:
            time.sleep(0.1)
            taken += len(answer.read(1000))
        assert taken + len(answer.read()) == size
        client.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
def test_the_connection_of_a_client_that_takes_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": np.arange(LONGER_THAN_BUFFERS // 8)}), path)
    monkeypatch.setattr("lancefs.serve.running._UNTAKEN", 1)
    with serving(path) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.connect(server.address)
        slow.sendall(b"GET /t.lance/latest.arrow HTTP/1.1\r\nHost: x\r\n\r\n")
        ports = server.address[1], slow.getsockname()[1]
        assert _is_connection(*ports)
        until = time.monotonic() + 30
        while _is_connection(*ports):
            assert time.monotonic() < until, "the connection is there for ever"
            time.sleep(0.01)


def _is_connection(here: int, there: int) -> bool:
    """Return whether this machine has a connection from one port of it to another one."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = f":{here:04X}", f":{there:04X}"
    return any((line[1][-5:], line[2][-5:]) == ends for line in lines)


def _ends(client: socket.socket) -> bool:
    """Return whether a server ends a connection, with a word or without."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
