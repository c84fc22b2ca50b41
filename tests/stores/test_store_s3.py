"""Tables on S3, read through s3fs: the rows, and the number of requests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import lance
import pandas as pd
import pyarrow as pa
import pytest
from comparison import assert_same_table
from store_servers import Counts

import lancefs
from lancefs.errors import CorruptFile, NotALanceTable, ReadFailed, RefNotFound
from lancefs.filesystem import LanceFileSystem
from lancefs.storage import s3_pages
from lancefs.storage.filesystems import open_url, with_connections

URL = "s3://lake/t.lance"
FILES = 4


def test_a_table_reads_the_same(s3_options: dict[str, Any], expected: pa.Table) -> None:
    assert_same_table(lancefs.open(URL, storage_options=s3_options).to_table(), expected)
    frame = pd.read_feather(
        f"lance://latest.arrow::{URL}", columns=["n3", "text"], storage_options={"s3": s3_options}
    )
    pd.testing.assert_frame_equal(frame, expected.select(["n3", "text"]).to_pandas())


def test_to_open_the_newest_version_takes_a_listing_and_a_read(
    s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    dataset = lancefs.open(URL, storage_options=s3_options)
    assert s3_counts.requests == {"LIST": 1, "GET": 1}
    assert dataset.count_rows() > 0
    lancefs.open(URL, storage_options=s3_options)
    assert s3_counts.requests == {"LIST": 2, "GET": 1}  # its manifest is kept


@pytest.mark.parametrize("ref", ["v1", "2"])
def test_a_version_behind_the_url_takes_few_listings_more(
    ref: str, s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    """A directory of that name goes before it."""
    assert lancefs.open(f"{URL}@{ref}", storage_options=s3_options).version == int(ref[-1])
    assert s3_counts.requests.keys() <= {"LIST", "GET"}
    assert s3_counts.requests["LIST"] <= 3


def test_a_path_without_a_table_takes_few_requests(
    s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    fs = LanceFileSystem(fo="s3://lake/none.lance", target_options=s3_options)
    s3_counts.clear()
    with pytest.raises(NotALanceTable, match=r"no such directory, or it is empty$"):
        fs.open("latest.arrow")
    assert s3_counts.requests.total() <= 13


def test_to_open_the_version_of_now_takes_no_more(
    s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    dataset = lancefs.open("s3://lake/t.lance", as_of="2100-01-01", storage_options=s3_options)
    assert dataset.version == 3
    assert s3_counts.requests == {"LIST": 1, "GET": 1}


@pytest.fixture(scope="module", params=["V1", "V2"])
def many(
    request: pytest.FixtureRequest,
    s3_options: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, str]:
    """A table of 12 versions in a bucket of its own: its URL, and the local path."""
    scheme = request.param
    path = str(tmp_path_factory.mktemp("many") / f"{scheme}.lance")
    rows = pa.table({"id": [0]})
    lance.write_dataset(rows, path, enable_v2_manifest_paths=scheme == "V2")
    for number in range(1, 12):
        lance.write_dataset(pa.table({"id": [number]}), path, mode="append")
    fs = fsspec.filesystem("s3", **s3_options)
    bucket = f"many-{scheme.lower()}"
    fs.call_s3("create_bucket", Bucket=bucket)
    fs.put(path, f"{bucket}/t.lance", recursive=True)
    return f"s3://{bucket}/t.lance", path


def test_many_versions_are_opened_by_the_first_page_of_a_listing(
    many: tuple[str, str],
    s3_options: dict[str, Any],
    s3_counts: Counts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3 lists names in their order, which are those of the newest versions first, in scheme V2."""
    url, path = many
    monkeypatch.setattr(s3_pages, "PAGE", 4)
    is_v2 = "many-v2" in url
    for version, requests in (
        (None, {"LIST": 1, "GET": 1}),
        (12, {"LIST": 1}),
        (10, {"LIST": 1, "GET": 1}),
        (2, {"LIST": 1, "HEAD": 1, "GET": 1}),
    ):
        s3_counts.clear()
        dataset = lancefs.open(url, version=version, storage_options=s3_options)
        assert dataset.version == (version or 12)
        if is_v2:
            assert s3_counts.requests == requests
        assert_same_table(dataset.to_table(), lance.dataset(path, version=version).to_table())
    everything = lancefs.open(url, storage_options=s3_options)
    assert everything.versions() == list(range(1, 13))
    s3_counts.clear()
    assert everything.changes(10)["id"].to_pylist() == [10, 11]
    if is_v2:
        assert s3_counts.requests["LIST"] == 2  # one for each version, and for those in between
    assert everything.changes(3)["id"].to_pylist() == list(range(3, 12))
    with pytest.raises(RefNotFound, match="no version 99; the table has 1 … 3, 4, 5"):
        lancefs.open(url, version=99, storage_options=s3_options)


def test_a_table_of_many_versions_of_two_schemes_has_no_newest_one(
    many: tuple[str, str], s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = many
    fs = fsspec.filesystem("s3", **s3_options)
    mixed = url.replace("t.lance", "mixed.lance")
    fs.copy(url, mixed, recursive=True)
    other = "1" if "many-v2" in url else f"{2**64 - 2:020}"
    fs.pipe_file(f"{mixed}/_versions/{other}.manifest", b"")
    monkeypatch.setattr(s3_pages, "PAGE", 4)
    with pytest.raises(CorruptFile, match="two schemes"):
        lancefs.open(mixed, storage_options=s3_options)


def test_a_scan_reads_each_footer_once(
    s3_options: dict[str, Any], s3_counts: Counts, expected: pa.Table
) -> None:
    dataset = lancefs.open(URL, storage_options=s3_options)
    s3_counts.clear()
    assert dataset.to_table(columns=["n1"]).equals(expected.select(["n1"]))
    footers, deletions, pages = FILES, FILES - 1, FILES
    assert s3_counts.requests["GET"] <= footers + deletions + pages
    assert set(s3_counts.requests) == {"GET"}, s3_counts.paths
    s3_counts.clear()
    again = lancefs.open(URL, storage_options=s3_options)
    again.to_table(columns=["n2"])
    assert s3_counts.requests["GET"] <= pages  # footers and deletions are kept


def test_a_scan_takes_no_more_than_that_of_pylance(
    s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    lancefs.open(URL, storage_options=s3_options).to_table(columns=["n1"])
    ours, our_bytes = s3_counts.requests.total(), s3_counts.bytes
    s3_counts.clear()
    options = {
        "aws_endpoint": s3_options["client_kwargs"]["endpoint_url"],
        "aws_region": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "allow_http": "true",
    }
    lance.dataset(URL, storage_options=options).to_table(columns=["n1"])
    assert ours <= s3_counts.requests.total(), (ours, s3_counts.requests)
    assert our_bytes <= 2 * s3_counts.bytes


def test_a_view_of_one_column_fetches_that_column(
    s3_options: dict[str, Any], s3_counts: Counts
) -> None:
    fs = LanceFileSystem(fo=URL, target_protocol="s3", target_options=s3_options)
    assert fs.info("latest/columns/n4.arrow")["size"] > 100_000
    with fs.open("latest/columns/n4.arrow") as file:
        assert pa.ipc.open_file(file).read_all().column_names == ["n4"]
    assert s3_counts.bytes < 1_500_000
    s3_counts.clear()
    assert len(fs.ls("")) == 8
    assert s3_counts.requests.total() <= 2


def test_a_walk_looks_up_once_what_may_change(
    s3_options: dict[str, Any], s3_counts: Counts, home: Path, tmp_path: Path
) -> None:
    """Whatever number of files it finds, and of directories that show the same version."""
    table, url = tmp_path / "walked.lance", "s3://lake/walked.lance"
    shutil.copytree(home / "t.lance", table)
    dataset = lance.dataset(table)
    dataset.tags.create("prod", 2)
    dataset.create_branch("exp")
    fs = LanceFileSystem(fo=url, target_options=s3_options)
    fs.fs.put(str(table), "lake/walked.lance", recursive=True)
    s3_counts.clear()
    paths = fs.find("")
    assert len(paths) > 100
    assert s3_counts.requests.total() <= 20
    assert max(Counter(path for path in s3_counts.paths if path[:4] == "HEAD").values()) == 1
    s3_counts.clear()
    sizes = fs.du("versions", total=False)
    assert s3_counts.requests["LIST"] == 1
    assert s3_counts.requests.keys() == {"LIST", "GET"}
    assert isinstance(sizes, dict)
    assert sizes["versions/3.arrow"] == fs.info("versions/3.arrow")["size"]
    fs.fs.rm("lake/walked.lance", recursive=True)


def test_a_version_or_table_that_does_not_exist(s3_options: dict[str, Any]) -> None:
    with pytest.raises(RefNotFound, match="no version 9; the table has 1, 2, 3"):
        lancefs.open(URL, version=9, storage_options=s3_options)
    with pytest.raises(NotALanceTable, match=r"did you mean one of t\.lance in it"):
        lancefs.open("s3://lake", storage_options=s3_options)
    with pytest.raises(NotALanceTable, match="no such directory"):
        lancefs.open("s3://nothing/t.lance", storage_options=s3_options)


def test_s3fs_opens_more_connections_than_its_ten(s3_options: dict[str, Any]) -> None:
    def connections(fs: Any) -> int:
        return int(fs.config_kwargs["max_pool_connections"])

    fs = LanceFileSystem(fo="lake/t.lance", target_protocol="s3", target_options=s3_options)
    assert connections(fs.fs) == 64
    assert connections(open_url(URL, s3_options)[0]) == 64
    given = {"config_kwargs": {"max_pool_connections": 7, "read_timeout": 9}}
    chosen, path = open_url(URL, s3_options | given)
    assert chosen.config_kwargs == given["config_kwargs"]
    assert path == "lake/t.lance"


@pytest.mark.parametrize("protocol", ["file", "memory", "https", "gs", "simplecache::s3"])
def test_options_of_other_stores_stay_as_they_are(protocol: str) -> None:
    assert with_connections(protocol, {"a": 1}) == {"a": 1}


def test_options_of_obstore_stay_as_they_are() -> None:
    code = (
        "import obstore.fsspec; obstore.fsspec.register('s3')\n"
        "from lancefs.storage.filesystems import with_connections\n"
        "assert with_connections('s3', {'region': 'x'}) == {'region': 'x'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_secret_in_the_place_of_a_bucket_is_shown_nowhere(s3_options: dict[str, Any]) -> None:
    """s3fs knows no credentials in URLs: it takes them for a part of the bucket's name."""
    secret = "hidden"
    with pytest.raises(ReadFailed, match=r"s3://key:\*\*\*@lake/t\.lance") as error:
        lancefs.open(f"s3://key:{secret}@lake/t.lance", storage_options=s3_options)
    assert secret not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("cache", ["simplecache", "filecache"])
def test_a_cache_of_fsspec_holds_no_version_and_no_tag(
    s3_options: dict[str, Any], tmp_path: Path, cache: str
) -> None:
    """Names of manifests and tags are used again; those of data files never are."""
    s3 = fsspec.filesystem("s3", **s3_options)
    options = {"s3": s3_options, cache: {"cache_storage": str(tmp_path / "cache")}}
    place, url = f"lake/{cache}.lance", f"{cache}::s3://lake/{cache}.lance"

    def values(tag: str | None = None) -> list[int]:
        found = lancefs.open(url, tag=tag, storage_options=options).to_table()["a"].to_pylist()
        view = f"lance://{'latest' if tag is None else f'tags/{tag}'}.arrow::{url}"
        assert pd.read_feather(view, storage_options=options)["a"].tolist() == found
        return found

    for first in (1, 7):  # the second table is made anew, at the place of the first one
        path = tmp_path / str(first)
        table = lance.write_dataset(pa.table({"a": [first]}), path)
        table.tags.create("prod", 1)
        s3.put(str(path), place, recursive=True)
        assert values() == values("prod") == [first]
        table = lance.write_dataset(pa.table({"a": [first + 1]}), path, mode="append")
        table.tags.update("prod", 2)
        s3.put(f"{path}/", place, recursive=True)
        assert values() == values("prod") == [first, first + 1]
        s3.rm(place, recursive=True)
