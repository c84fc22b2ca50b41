"""Tables behind a web server, which may or may not list directories."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from collections import Counter
from pathlib import Path

import lance
import pandas as pd
import pyarrow as pa
import pytest
from aiohttp import web
from comparison import assert_same_table
from store_servers import WebServer, web_server

import lancefs
from lancefs.errors import NotALanceTable, ReadFailed
from lancefs.filesystem import LanceFileSystem
from lancefs.storage import retries
from lancefs.storage import web as web_stores


def test_a_table_on_a_server_that_lists_is_read(home: Path, expected: pa.Table) -> None:
    with web_server(WebServer(home)) as url:
        assert_same_table(lancefs.open(f"{url}/t.lance").to_table(), expected)
        frame = pd.read_feather(f"lance://latest.arrow::{url}/t.lance", columns=["n3"])
        assert len(frame) == expected.num_rows
        fs = LanceFileSystem(fo=f"{url}/t.lance")
        assert fs.glob("versions/*.arrow") == [f"versions/{n}.arrow" for n in (1, 2, 3)]


def test_a_server_that_lists_nothing_needs_a_version(home: Path, expected: pa.Table) -> None:
    with web_server(WebServer(home, lists=False)) as url:
        with pytest.raises(ReadFailed, match=r"403.*version=7"):
            lancefs.open(f"{url}/t.lance")
        assert_same_table(lancefs.open(f"{url}/t.lance", version=3).to_table(), expected)
        with pytest.raises(ReadFailed, match=r"403.*nor is there a manifest of version 4") as error:
            lancefs.open(f"{url}/t.lance", version=4)
        assert "version=7" not in str(error.value)
        frame = pd.read_feather(f"lance://versions/3.arrow::{url}/t.lance", columns=["n3"])
        assert len(frame) == expected.num_rows
        fs = LanceFileSystem(fo=f"{url}/t.lance")
        assert fs.exists("versions/2.arrow")
        assert fs.isdir("versions/2")


def test_a_token_in_the_url_lists_too(home: Path, expected: pa.Table) -> None:
    server = WebServer(home, relative=True)
    with web_server(server) as url:
        table = f"{url}/t.lance?token=a/b"
        assert_same_table(lancefs.open(table).to_table(), expected)
        assert set(server.queries) == {"token=a/b"}
        with pytest.raises(NotALanceTable, match=r"did you mean one of t\.lance in it\?") as found:
            lancefs.open(f"{url}/?token=a/b")
        assert "a/b" not in str(found.value)


@pytest.mark.parametrize("digests", [True, False])
def test_a_table_that_is_made_anew_is_read_anew(tmp_path: Path, digests: bool) -> None:
    server, path = WebServer(tmp_path, digests=digests), tmp_path / "t.lance"
    with web_server(server) as url:
        fs = LanceFileSystem(fo=f"{url}/t.lance")
        for first in (0, 500):
            lance.write_dataset(pa.table({"n": [first]}), path)
            for name in ("latest.arrow", "versions/1.arrow"):
                frame = pd.read_feather(f"lance://{name}::{url}/t.lance")
                assert frame["n"].tolist() == [first]
                assert pd.read_feather(fs.open(name))["n"].tolist() == [first]
            server.counts.clear()
            fs.cat("versions/1.arrow")
            # Without a digest, only the manifest tells whether it is another one.
            expected = {"HEAD": 1} if digests else {"HEAD": 1, "GET": 1}
            assert server.counts.requests == expected
            shutil.rmtree(path)
        assert not fs.exists("versions/1.arrow")


def test_a_server_without_range_requests_is_not_reported_as_damage(
    home: Path, expected: pa.Table
) -> None:
    server = WebServer(home, ranges=False)
    with web_server(server) as url:
        dataset = lancefs.open(f"{url}/t.lance", version=3)
        server.counts.clear()
        with pytest.raises(ReadFailed, match=r"does not answer requests for parts.*simplecache::"):
            dataset.to_table(columns=["n1"])
        # A file is not asked for time after time: it would come whole again.
        assert max(Counter(server.counts.paths).values()) <= 2
        copied = lancefs.open(f"simplecache::{url}/t.lance", version=3)
        assert copied.to_table(columns=["n1"]).equals(expected.select(["n1"]))


def test_a_request_to_a_busy_server_is_retried(home: Path, expected: pa.Table) -> None:
    server = WebServer(home)
    with web_server(server) as url:
        dataset = lancefs.open(f"{url}/t.lance")
        server.failures = [503, 0, 429]
        assert dataset.to_table(columns=["n1"]).equals(expected.select(["n1"]))
        assert not server.failures
        server.failures = [403]
        with pytest.raises(ReadFailed, match=r"bytes \d+–\d+: 403"):
            dataset.to_table(columns=["n2"])


def _part(data: bytes, start: int, end: int) -> web.Response:
    headers = {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
    return web.Response(status=206, body=data[start:end], headers=headers)


@pytest.mark.parametrize("by", [-64, 64], ids=["before", "after"])
def test_another_part_than_was_asked_for_is_not_taken_for_it(
    home: Path, expected: pa.Table, by: int
) -> None:
    """The same number of bytes, which a decoder might take for numbers."""
    server, wrong = WebServer(home), [0]

    async def part(request: web.Request, data: bytes) -> web.Response:
        start, end, _ = request.http_range.indices(len(data))
        moved = by if wrong and start + by > 0 and end + by <= len(data) else 0
        if moved:
            wrong.pop()
        return _part(data, start + moved, end + moved)

    with web_server(server) as url:
        dataset = lancefs.open(f"{url}/t.lance")
        list(dataset.to_batches(columns=["n0"], limit=1))
        server.part = part
        assert dataset.to_table(columns=["n1"]).equals(expected.select(["n1"]))  # asked again
        assert not wrong
        wrong += [0] * 9999
        with pytest.raises(ReadFailed, match=r"bytes (\d+)–\d+: the server gave bytes (?!\1)\d+–"):
            dataset.to_table(columns=["n2"])


def test_a_server_without_range_requests_need_not_send_a_whole_file(home: Path) -> None:
    server, sent = WebServer(home), 0

    async def part(request: web.Request, data: bytes) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse(headers={"Content-Length": str(2**30)})
        await answer.prepare(request)
        while sent < 2**30 and request.transport is not None:
            await answer.write(bytes(2**20))
            sent += 2**20
        return answer

    with web_server(server) as url:
        dataset = lancefs.open(f"{url}/t.lance", version=3)
        list(dataset.to_batches(columns=["n0"], limit=1))
        server.part = part
        with pytest.raises(ReadFailed, match=r"gave the whole file; .*simplecache::"):
            dataset.to_table(columns=["n1"], limit=5)
    assert sent < 2**28


def test_parts_are_not_those_of_a_compressed_file(home: Path, expected: pa.Table) -> None:
    server = WebServer(home)

    async def part(request: web.Request, data: bytes) -> web.Response:
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            encoded = {"Content-Encoding": "gzip"}
            return web.Response(body=gzip.compress(data, 1), headers=encoded)
        return _part(data, *request.http_range.indices(len(data))[:2])

    server.part = part
    with web_server(server) as url:
        assert_same_table(lancefs.open(f"{url}/t.lance").to_table(), expected)
    listed = next(one for one in server.headers if "Range" not in one)
    assert "gzip" in listed["Accept-Encoding"]  # of other answers, long listings for example


def test_a_server_that_falls_silent_is_asked_again(
    home: Path, expected: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_stores, "_SILENCE", 0.2)
    server, silent = WebServer(home), [0]

    async def part(request: web.Request, data: bytes) -> web.StreamResponse:
        start, end, _ = request.http_range.indices(len(data))
        if not silent:
            return _part(data, start, end)
        silent.pop()
        answer = web.StreamResponse(status=206, headers={"Content-Length": str(end - start)})
        await answer.prepare(request)
        await answer.write(data[start : start + (end - start) // 2])
        while request.transport is not None:
            await asyncio.sleep(0.05)
        return answer

    with web_server(server) as url:
        # The filesystem of another test on this port would have the patience of its own.
        dataset = lancefs.open(f"{url}/t.lance", storage_options={"skip_instance_cache": True})
        server.part = part
        assert dataset.to_table(columns=["n1"]).equals(expected.select(["n1"]))
    assert not silent


def test_a_busy_server_says_when_to_come_again(
    home: Path, expected: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(retries.time, "sleep", pauses.append)
    server = WebServer(home)
    with web_server(server) as url:
        dataset = lancefs.open(f"{url}/t.lance")
        server.failures, server.retry_after = [429], "7"
        assert dataset.to_table(columns=["n1"]).equals(expected.select(["n1"]))
        server.failures, server.retry_after = [503], "86400"
        lancefs.open(f"{url}/t.lance", storage_options={"skip_instance_cache": True})
    assert len(pauses) == 2
    assert 7 < pauses[0] < 8
    assert 15 < pauses[1] < 16


def test_a_server_that_cannot_be_connected_to() -> None:
    with web_server(WebServer(Path())) as url:
        pass
    with pytest.raises(
        ReadFailed, match=r"_versions: cannot be listed: .*; check the address, the"
    ):
        lancefs.open(f"{url}/t.lance")
