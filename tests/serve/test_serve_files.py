"""Files of the tree over HTTP: ranges, entity tags, listings, and paths that lead nowhere."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import Served, serving

from lancefs.errors import CorruptFile
from lancefs.filesystem import LanceFileSystem
from lancefs.serve.files import PART
from lancefs.serve.ranges import ByteSpan, RangeNotSatisfiable, wanted_span
from lancefs.serve.refusals import message_of
from lancefs.storage import Store
from lancefs.table.versions import VersionList
from lancefs.views import open_tables
from lancefs.views.file_objects import ViewFile

TABLE = "/teas%20%3Cb%3E%26.lance"
FILE = f"{TABLE}/versions/1.arrow"


@pytest.fixture(scope="module")
def data(teas: Path) -> bytes:
    """The bytes of version 1, as the filesystem has them."""
    return LanceFileSystem(str(teas)).cat_file("versions/1.arrow")


def test_a_version_is_an_arrow_file(served: Served, data: bytes) -> None:
    answer = served.ask(FILE)
    assert answer.status == 200
    assert answer.body == data
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.file"
    assert answer.headers["content-length"] == str(len(data))
    assert answer.headers["accept-ranges"] == "bytes"
    assert pa.ipc.open_file(answer.body).read_all().num_rows == 300


def test_head_has_the_headers_and_no_bytes(served: Served, data: bytes) -> None:
    answer = served.ask(FILE, "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == str(len(data))
    assert answer.headers["etag"] == served.ask(FILE).headers["etag"]


@pytest.mark.parametrize("asked", ["bytes=0-9", "bytes=99999999-"])
def test_head_is_of_the_whole_file(served: Served, data: bytes, asked: str) -> None:
    answer = served.ask(FILE, "HEAD", Range=asked)
    assert answer.status == 200
    assert answer.headers["content-length"] == str(len(data))
    assert "content-range" not in answer.headers


@pytest.mark.parametrize("server", ["http://x.org", "HTTPS://x.org:80"])
def test_a_request_may_name_the_server(served: Served, data: bytes, server: str) -> None:
    assert served.ask(f"{server}{FILE}").body == data
    assert served.ask(server).status == served.ask(f"{server}/").status == 200
    moved = served.ask(f"{server}{TABLE}")
    assert (moved.status, moved.headers["location"]) == (307, f".{TABLE}/")


def test_a_stream_has_no_length_and_no_ranges(served: Served) -> None:
    answer = served.ask(f"{TABLE}/tags/clean.arrows", Range="bytes=0-9")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert answer.headers["accept-ranges"] == "none"
    assert "content-length" not in answer.headers
    assert pa.ipc.open_stream(answer.body).read_all().num_rows == 290


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=100-", 100, None),
        ("bytes=-7", -7, None),
        ("bytes=3-99999999", 3, None),
        ("bytes=-99999999", 0, None),
    ],
)
def test_a_range_is_answered_with_its_bytes(
    served: Served, data: bytes, asked: str, start: int, end: int | None
) -> None:
    answer = served.ask(FILE, Range=asked)
    first, last, _ = slice(start, end).indices(len(data))
    assert answer.status == 206
    assert answer.body == data[first:last]
    assert answer.headers["content-range"] == f"bytes {first}-{last - 1}/{len(data)}"
    assert answer.headers["content-length"] == str(last - first)


@pytest.mark.parametrize("asked", ["bytes=1-2,4-5", "bytes=9-2", "rows=1-2", "bytes=-", "nonsense"])
def test_what_is_no_single_range_gives_the_whole(served: Served, data: bytes, asked: str) -> None:
    answer = served.ask(FILE, Range=asked)
    assert (answer.status, answer.body) == (200, data)


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=-0"])
def test_a_range_beyond_the_file_is_refused(served: Served, data: bytes, asked: str) -> None:
    answer = served.ask(FILE, Range=asked)
    assert answer.status == 416
    assert answer.headers["content-range"] == f"bytes */{len(data)}"


@given(st.integers(0, 40), st.none() | st.integers(0, 40), st.none() | st.integers(0, 40))
def test_a_span_is_what_a_slice_gives(size: int, first: int | None, last: int | None) -> None:
    header = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    data = bytes(range(size))
    is_reversed = first is not None and last is not None and last < first
    if is_reversed or (first is None and last is None):
        assert wanted_span(header, size) is None
        return
    if first is None:
        assert last is not None
        expected = data[max(0, size - last) :]
    else:
        expected = data[first : None if last is None else last + 1]
    if not expected:
        with pytest.raises(RangeNotSatisfiable):
            wanted_span(header, size)
        return
    span = wanted_span(header, size)
    assert span is not None
    assert data[span.start : span.end] == expected


def test_without_a_header_the_whole_is_wanted() -> None:
    assert wanted_span(None, 5) is None
    assert wanted_span(" bytes=1-1 ", 5) == ByteSpan(1, 2)
    assert wanted_span(f"bytes={'9' * 5000}-", 5) is None


def test_what_is_known_is_not_sent_again(served: Served) -> None:
    etag = served.ask(FILE).headers["etag"]
    assert etag[0] == etag[-1] == '"'
    for known in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        answer = served.ask(FILE, If_None_Match=known)
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["etag"] == etag
    assert served.ask(FILE, If_None_Match='"x"').status == 200


def test_a_range_of_one_file_is_never_that_of_another(served: Served, data: bytes) -> None:
    etag = served.ask(FILE).headers["etag"]
    for meant in (etag, f'"other", {etag}', "*"):
        assert served.ask(FILE, If_Match=meant, Range="bytes=0-5").body == data[:6]
    for meant in ('"other"', f"W/{etag}"):
        for more in ({}, {"Range": "bytes=0-5"}, {"If_None_Match": etag}):
            answer = served.ask(FILE, If_Match=meant, **more)
            assert (answer.status, answer.headers["etag"]) == (412, etag)
    assert served.ask(FILE, If_Match=etag, If_None_Match=etag).status == 304
    assert served.ask(f"{TABLE}/tags/clean.arrows", If_Match='"other"').status == 412


def test_a_range_of_other_bytes_gives_the_whole(served: Served, data: bytes) -> None:
    etag = served.ask(FILE).headers["etag"]
    assert served.ask(FILE, Range="bytes=0-3", If_Range=etag).body == data[:4]
    for other in ('"x"', f"W/{etag}", "Wed, 21 Oct 2015 07:28:00 GMT"):
        answer = served.ask(FILE, Range="bytes=0-3", If_Range=other)
        assert (answer.status, answer.body) == (200, data)


def test_the_tag_of_latest_moves_on_with_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(5)}), path)
    with serving(path) as server:
        before = server.ask("/t.lance/latest.arrow").headers["etag"]
        assert server.ask("/t.lance/latest.arrow", If_None_Match=before).status == 304
        assert server.ask("/t.lance/versions/1.arrow").headers["etag"] == before
        assert server.ask("/t.lance/latest/columns/a.arrow").headers["etag"] != before
        lance.write_dataset(pa.table({"a": range(3)}), path, mode="append")
        answer = server.ask("/t.lance/latest.arrow", If_None_Match=before)
        assert answer.status == 200
        assert answer.headers["etag"] != before
        assert pa.ipc.open_file(answer.body).read_all().num_rows == 8
        assert server.ask("/t.lance/versions/1.arrow", If_None_Match=before).status == 304


def test_a_request_lists_the_versions_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a store far away that is what a request waits for."""
    list_versions, listed = open_tables.list_versions, []

    def listing(store: Store, **options: bool) -> VersionList:
        listed.append(store)
        return list_versions(store, **options)

    monkeypatch.setattr(open_tables, "list_versions", listing)
    assert len(served.ask(f"{TABLE}/latest.arrow", Range="bytes=0-99").body) == 100
    assert len(listed) == 1


def test_a_directory_may_have_the_name_of_a_file(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"n": [1]}), tmp_path / "t.lance")
    dataset.tags.create("day.json", 1)
    with serving(tmp_path / "t.lance") as served:
        assert served.ask("/t.lance/tags/day.json").status == 307
        assert "columns/" in served.ask("/t.lance/tags/day.json/").text
        assert served.ask("/t.lance/tags/day.json.arrow").body[:6] == b"ARROW1"


def test_a_file_of_several_parts_comes_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(400_000)}), path)
    data = LanceFileSystem(str(path)).cat_file("latest.arrow")
    assert len(data) > 3 * PART
    with serving(path) as server:
        assert server.ask("/t.lance/latest.arrow").body == data
        asked = f"bytes=5-{2 * PART + 7}"
        assert server.ask("/t.lance/latest.arrow", Range=asked).body == data[5 : 2 * PART + 8]
        # A client that goes away in the middle; the server goes on.
        with socket.create_connection(server.address) as client:
            client.sendall(b"GET /t.lance/latest.arrow HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(10) == b"HTTP/1.1 2"
        assert server.ask("/t.lance/latest.arrow").body == data
        assert server.told == []


def test_the_tables_and_the_tree_are_listed_as_json(served: Served) -> None:
    top = json.loads(served.ask("/", Accept="application/json").body)
    assert [(one["name"], one["type"]) for one in top["entries"]] == [
        ("teas <b>&.lance", "directory")
    ]
    assert top["entries"][0]["href"] == f"{TABLE[1:]}/"
    found = json.loads(served.ask(f"{TABLE}/versions/", Accept="application/json").body)
    names = [one["name"] for one in found["entries"]]
    assert names == ["1.arrow", "1.arrows", "1", "2.arrow", "2.arrows", "2"]
    assert found["path"] == "/teas <b>&.lance/versions"


def test_each_entry_leads_somewhere(served: Served) -> None:
    """Also a column whose name has a slash in it, which the tree quotes once and the URL again."""
    path = f"{TABLE}/versions/2/columns/"
    found = json.loads(served.ask(path, Accept="application/json").body)["entries"]
    assert [one["name"] for one in found] == ["id.arrow", "tea.arrow", "a%2Fb%2C <i>.arrow"]
    for entry in found:
        answer = served.ask(path + entry["href"])
        assert pa.ipc.open_file(answer.body).read_all().num_rows == 290
    both = served.ask(path + "tea%2Cid.arrow")
    assert pa.ipc.open_file(both.body).read_all().column_names == ["tea", "id"]


def test_a_directory_without_its_slash_leads_to_it(served: Served) -> None:
    answer = served.ask(f"{TABLE}/versions")
    assert answer.status == 307
    assert answer.headers["location"] == "./versions/"
    assert served.ask(TABLE).headers["location"] == f".{TABLE}/"


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd",
        "/%2e%2e/",
        f"{TABLE}/../../",
        f"{TABLE}/%2e%2e/%2e%2e/",
        f"{TABLE}/..%2f..%2f",
        f"{TABLE}/versions/%2E%2E/%2e%2e/_versions/",
        f"{TABLE}//versions/",
        f"{TABLE}/./versions/",
        "//versions/",
        f"{TABLE}/versions/1%00.arrow",
        f"{TABLE}/%ff/",
        f"{TABLE}/_versions/",
        f"{TABLE}/data/",
        "/other.lance/",
        "/%74eas%2520%253Cb%253E%2526.lance/",  # quoted twice
        f"{TABLE}/latest.arrow/",
        f"{TABLE}/versions/9.arrow",
        f"{TABLE}/latest/columns/tee.arrow",
    ],
)
def test_nothing_else_is_there(served: Served, teas: Path, path: str) -> None:
    answer = served.ask(path)
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.count("\n") == 1
    assert str(teas.parent) not in answer.text


def test_a_message_says_what_there_is(served: Served) -> None:
    assert (
        "there is no version 9; the table has 1, 2" in served.ask(f"{TABLE}/versions/9.arrow").text
    )
    assert "did you mean tea?" in served.ask(f"{TABLE}/latest/columns/tee.arrow").text


def test_damage_is_an_answer_and_the_server_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(5)}), path)
    lance.write_dataset(pa.table({"a": range(5)}), path, mode="append")
    (manifest,) = (path / "_versions").glob("*614.manifest")  # version 1, counted down from 2^64
    manifest.write_bytes(b"nothing of a manifest")
    with serving(path) as server:
        answer = server.ask("/t.lance/versions/1.arrow")
        assert answer.status == 500
        assert "Traceback" not in answer.text
        assert str(tmp_path) not in answer.text
        assert "t.lance/_versions/" in answer.text
        assert len(server.told) == 1
        assert server.ask("/t.lance/latest.arrow").status == 200


@pytest.mark.parametrize("file", ["latest.arrow", "latest.arrows"])
def test_an_error_before_the_first_byte_is_an_answer(file: str, tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(5)}), path)
    (data,) = (path / "data").iterdir()
    elsewhere = tmp_path / "kept elsewhere"
    elsewhere.mkdir()
    data.rename(elsewhere / data.name)
    with serving(path) as server:
        answer = server.ask(f"/t.lance/{file}")
        assert answer.status == 500
        assert len(server.told) == 1
        assert "t.lance/data/" in answer.text
        assert str(tmp_path) not in answer.text
        assert answer.text.count("\n") == 1
        data.symlink_to(elsewhere / data.name)
        assert server.ask(f"/t.lance/{file}").status == 200


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/mnt/lake/t.lance/data/x.lance: damaged", "t.lance/data/x.lance: damaged"),
        ("/srv/base/data/x.lance: damaged", "…/x.lance: damaged"),
        ("'/srv/base/data/x.lance' is gone", "'…/x.lance' is gone"),
        ("reading file:///srv/base/x.lance failed", "reading …/x.lance failed"),
        ("/srv/our base/of all/x.lance: damaged", "…/x.lance: damaged"),
        ("to /etc/passwd, outside of /srv/a b/c and /mnt/d", "to …/passwd, outside of …/c and …/d"),
        ("/srv/base/x: no such file; see a/b", "…/x: no such file; see a/b"),
        ("s3://bucket/base/x.lance: gone", "s3://bucket/base/x.lance: gone"),
        ("there is no file a/b.arrow; / lists the tables",) * 2,
    ],
)
def test_no_message_names_a_directory_of_the_machine(text: str, shown: str) -> None:
    assert message_of(CorruptFile(text), {"/mnt/lake/t.lance": "t.lance"}) == shown


def test_an_error_in_the_middle_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no client takes what it has for the whole."""
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(400_000)}), path)
    read = ViewFile._fetch_range

    def fail_later(file: ViewFile, start: int, end: int) -> bytes:
        if start >= PART:
            raise CorruptFile(f"{path}/data/x.lance: damaged")
        return read(file, start, end)

    monkeypatch.setattr(ViewFile, "_fetch_range", fail_later)
    with serving(path) as server:
        with pytest.raises(http.client.IncompleteRead) as error:
            server.ask("/t.lance/latest.arrow")
        assert len(error.value.partial) == PART
        assert server.told == [f"{path}/data/x.lance: damaged"]
        assert server.ask("/t.lance/latest.arrow", Range="bytes=0-9").status == 206


def test_a_column_without_a_name_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"": range(5), "a": range(5)}), path)
    with serving(path) as server:
        answer = server.ask("/t.lance/latest/columns/.arrow")
        assert answer.status == 200
        assert pa.ipc.open_file(answer.body).read_all().num_rows == 5


@pytest.mark.skipif(os.name != "posix", reason="names are bytes")
def test_names_that_are_no_utf8_hide_no_others(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(5)}), tmp_path / "t.lance")
    os.mkdir(os.fsencode(tmp_path) + b"/\xff.lance")
    with serving(tmp_path) as server:
        answer = server.ask(f"/{tmp_path.name}/")
        assert answer.status == 200
        assert b"t.lance/" in answer.body
        assert b"%FF.lance/" in answer.body


@pytest.mark.skipif(os.name != "posix", reason="names are bytes")
def test_a_table_whose_name_is_no_utf8_is_listed_and_read(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(5)}), tmp_path / "t.lance")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.lance")
    os.rename(tmp_path / "t.lance", odd)
    with serving(odd) as server:
        listed = json.loads(server.ask("/", Accept="application/json").body)["entries"]
        assert [one["href"] for one in listed] == ["%FF.lance/"]
        assert "%FF.lance/" in server.ask("/").text
        answer = server.ask("/%FF.lance/latest.arrow")
        assert pa.ipc.open_file(answer.body).read_all().num_rows == 5
        assert server.ask("/%FF.lance").headers["location"] == "./%FF.lance/"
        assert server.ask("/%FF.lance/log").status == 200
        assert server.ask("/%FE.lance/").status == 404
        assert server.told == []
