"""Tables behind a web server, which may or may not list directories."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import lance
import pandas as pd
import pyarrow as pa
import pytest
from comparison import assert_same_table
from store_servers import WebServer, web_server

import lancefs
from lancefs.errors import ReadFailed
from lancefs.filesystem import LanceFileSystem


def test_a_server_that_lists(home: Path, expected: pa.Table) -> None:
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
