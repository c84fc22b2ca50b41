"""Tables on S3 whose commits DynamoDB records, on a server of this machine.

pylance writes them as its users do; what a writer leaves that stopped half way is made by hand.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import fsspec
import lance
import pyarrow as pa
import pytest
from store_servers import s3_server

import lancefs
from lancefs.errors import CorruptFile, MissingFile, NotALanceTable, ReadFailed
from lancefs.s3_ddb.filesystem import S3DynamoDBFileSystem

BUCKET, COMMITS = "tables", "commits"
URL = f"s3+ddb://{BUCKET}/dir/t.lance?ddbTableName={COMMITS}"
V1, V2, V3 = (f"{2**64 - 1 - version}.manifest" for version in (1, 2, 3))
STAGED = f"{V3}-3a4f0d35-7bfb-4a0e-9e0f-7c3f2b6b0a11"


@dataclass
class Cloud:
    """A server with the protocols of S3 and DynamoDB, and clients of both."""

    endpoint: str
    s3: Any
    dynamodb: Any

    @property
    def options(self) -> dict[str, Any]:
        """Storage options of lancefs."""
        return {"endpoint_url": self.endpoint, "dynamodb_endpoint": self.endpoint}

    def open(self, url: str = URL, **kwargs: Any) -> lancefs.LanceDataset:
        return lancefs.open(url, storage_options=self.options, **kwargs)

    def fs(self) -> S3DynamoDBFileSystem:
        """Return a filesystem without cached state."""
        return S3DynamoDBFileSystem(COMMITS, skip_instance_cache=True, **self.options)

    def lance(self, table: pa.Table | None = None, mode: str = "append", url: str = URL) -> Any:
        options = {
            "aws_endpoint": self.endpoint,
            "dynamodb_endpoint": self.endpoint,
            "allow_http": "true",
        }
        if table is None:
            return lance.dataset(url, storage_options=options)
        return lance.write_dataset(table, url, mode=mode, storage_options=options)

    def put_item(self, version: int, name: str, **more: Any) -> None:
        where = {
            "base_uri": {"S": "dir/t.lance"},
            "version": {"N": str(version)},
            "path": {"S": f"dir/t.lance/_versions/{name}"},
        }
        self.dynamodb.put_item(TableName=COMMITS, Item={**where, **more})

    def move(self, old: str, new: str) -> None:
        """Rename a manifest."""
        below = "dir/t.lance/_versions"
        source = {"Bucket": BUCKET, "Key": f"{below}/{old}"}
        self.s3.copy_object(Bucket=BUCKET, Key=f"{below}/{new}", CopySource=source)
        self.s3.delete_object(**source)

    def stage(self) -> None:
        """Move the manifest of version 3 back to its staging name."""
        self.move(V3, STAGED)
        self.put_item(3, STAGED)

    def everything(self) -> Any:
        """Return all objects and items, to check that nothing was written."""
        objects = self.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
        items = self.dynamodb.scan(TableName=COMMITS)["Items"]
        return [(item["Key"], item["ETag"]) for item in objects], sorted(map(repr, items))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as (url, _):
        yield url


@pytest.fixture
def cloud(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """S3 with a table of three versions, a tag and a branch, all committed through DynamoDB."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("DYNAMODB_ENDPOINT", server)
    s3, dynamodb = (boto3.client(one, endpoint_url=server) for one in ("s3", "dynamodb"))
    s3.create_bucket(Bucket=BUCKET)
    keys = [("base_uri", "HASH", "S"), ("version", "RANGE", "N")]
    dynamodb.create_table(
        TableName=COMMITS,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind, _ in keys],
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": t} for n, _, t in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    cloud = Cloud(server, s3, dynamodb)
    cloud.lance(pa.table({"a": [1, 2]}), "create")
    cloud.lance(pa.table({"a": [3]}))
    cloud.lance(pa.table({"a": [4]}))
    yield cloud
    S3DynamoDBFileSystem.clear_instance_cache()
    for found in s3.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        s3.delete_object(Bucket=BUCKET, Key=found["Key"])
    s3.delete_bucket(Bucket=BUCKET)
    dynamodb.delete_table(TableName=COMMITS)


def values(dataset: lancefs.LanceDataset) -> list[int]:
    return dataset.to_table()["a"].to_pylist()  # type: ignore[no-any-return]


def test_a_table_is_opened_by_the_url_that_lance_takes(cloud: Cloud) -> None:
    ours = cloud.open()
    assert ours.version == cloud.lance().version == 3
    assert values(ours) == cloud.lance().to_table()["a"].to_pylist() == [1, 2, 3, 4]
    assert values(cloud.open(version=2)) == [1, 2, 3]
    assert ours.versions() == [1, 2, 3]
    assert ours.history()["operation"].to_pylist() == ["Overwrite", "Append", "Append"]


def test_many_ranges_of_a_staged_manifest_are_read_as_one_after_the_other(cloud: Cloud) -> None:
    cloud.stage()
    fs = cloud.fs()
    assert fs.fs.config_kwargs["max_pool_connections"] == 64
    path = f"{BUCKET}/dir/t.lance/_versions/{V3}"
    data = fs.cat_file(path)
    starts: list[int] = [*range(0, 60, 3), -7]
    ends = [*(start + 5 for start in starts[:-1]), None]
    wanted = [data[start:end] for start, end in zip(starts, ends, strict=True)]
    assert fs.cat_ranges([path] * len(starts), starts, ends) == wanted
    assert fs.cat_ranges([path] * len(starts), starts, ends, batch_size=3) == wanted
    assert fs.cat_ranges([path] * 9, 3, 8) == [data[3:8]] * 9
    fs.fs.close_session(fs.fs.loop, fs.fs._s3creator)


def test_a_staged_version_is_read_under_its_staging_name(cloud: Cloud) -> None:
    cloud.stage()
    before = cloud.everything()
    ours = cloud.open()
    assert ours.version == 3
    assert values(ours) == [1, 2, 3, 4]
    assert ours.changes(2)["a"].to_pylist() == [4]
    assert ours.history()["rows"].to_pylist() == [2, 3, 4]
    assert values(cloud.open(version=3)) == [1, 2, 3, 4]
    assert values(cloud.open(as_of=ours.manifest.timestamp)) == [1, 2, 3, 4]
    assert cloud.everything() == before
    # Lance itself finishes the commit first.
    assert cloud.lance().version == 3
    assert cloud.everything() != before


def test_a_staged_version_with_its_size_in_the_item_is_read(cloud: Cloud) -> None:
    size = cloud.s3.head_object(Bucket=BUCKET, Key=f"dir/t.lance/_versions/{V3}")["ContentLength"]
    cloud.stage()
    cloud.put_item(3, STAGED, size={"N": str(size)})
    assert values(cloud.open()) == [1, 2, 3, 4]


def test_a_first_version_that_is_staged_is_a_table(cloud: Cloud) -> None:
    for version, name in ((2, V2), (3, V3)):
        cloud.s3.delete_object(Bucket=BUCKET, Key=f"dir/t.lance/_versions/{name}")
        where = {"base_uri": {"S": "dir/t.lance"}, "version": {"N": str(version)}}
        cloud.dynamodb.delete_item(TableName=COMMITS, Key=where)
    cloud.move(V1, f"{V1}-0b8")
    cloud.put_item(1, f"{V1}-0b8")
    assert values(cloud.open()) == [1, 2]


def test_a_version_that_gets_its_final_name_while_it_is_read_is_found(cloud: Cloud) -> None:
    cloud.stage()
    fs = cloud.fs()
    path = f"{BUCKET}/dir/t.lance/_versions/{V3}"
    assert path in fs.ls(f"{BUCKET}/dir/t.lance/_versions", detail=False)
    staged = fs.cat_file(path)
    cloud.move(STAGED, V3)
    assert fs.cat_ranges([path], 0, None) == [staged]
    assert fs.cat_file(path) == staged
    assert fs.info(path)["name"] == path


def test_a_staged_version_is_found_without_a_listing(cloud: Cloud) -> None:
    cloud.stage()
    path = f"{BUCKET}/dir/t.lance/_versions/{V3}"
    staged = cloud.fs().cat_file(path)
    assert staged.endswith(b"LANC")
    assert cloud.fs().cat_ranges([path, path], [0, 4], [4, 8]) == [staged[:4], staged[4:8]]
    assert cloud.fs().size(path) == len(staged)
    with cloud.fs().open(path) as file:
        assert file.read() == staged
    with pytest.raises(FileNotFoundError):
        cloud.fs().cat_file(path.replace(V3, f"{2**64 - 1 - 99}.manifest"))


def test_views_pickles_and_branches_work_as_on_any_store(cloud: Cloud) -> None:
    cloud.lance().tags.create("prod", 2)
    cloud.lance().create_branch("exp", 2)
    cloud.stage()
    chained = f"lance://versions/3.arrow::{URL}"
    with fsspec.open(chained, **{"s3+ddb": cloud.options}) as file:
        assert pa.ipc.open_file(file).read_all()["a"].to_pylist() == [1, 2, 3, 4]
    ours = cloud.open()
    assert ours.uri == URL
    assert values(pickle.loads(pickle.dumps(ours))) == [1, 2, 3, 4]
    assert values(cloud.open(tag="prod")) == [1, 2, 3]
    assert values(cloud.open(branch="exp")) == [1, 2, 3]


def test_sql_reads_it(cloud: Cloud) -> None:
    import duckdb_adapter

    cloud.stage()
    connection = duckdb_adapter.connect()
    rows = connection.execute(
        f"SELECT sum(a) FROM lance_scan('{URL}', storage_options := $options)",
        {"options": cloud.options},
    ).fetchall()
    assert rows == [(10,)]


def test_a_table_without_records_in_dynamodb_is_read_as_it_is_on_s3(cloud: Cloud) -> None:
    url = f"s3+ddb://{BUCKET}/plain.lance?ddbTableName={COMMITS}"
    cloud.lance(pa.table({"a": [7]}), "create", url=f"s3://{BUCKET}/plain.lance")
    assert values(cloud.open(url)) == [7]


def test_dynamodb_decides_which_version_is_the_newest(cloud: Cloud) -> None:
    cloud.lance(pa.table({"a": [5]}), url=f"s3://{BUCKET}/dir/t.lance")  # passes DynamoDB by
    assert cloud.open().version == cloud.lance().version == 3


def test_items_of_versions_that_were_cleaned_up_are_ignored(cloud: Cloud) -> None:
    cloud.s3.delete_object(Bucket=BUCKET, Key=f"dir/t.lance/_versions/{V1}")
    assert cloud.open().versions() == [2, 3]


def test_a_missing_newest_version_is_not_replaced_by_an_older_one(cloud: Cloud) -> None:
    cloud.s3.delete_object(Bucket=BUCKET, Key=f"dir/t.lance/_versions/{V3}")
    with pytest.raises(MissingFile, match=V3):
        cloud.open()


def test_all_pages_of_an_answer_are_read(cloud: Cloud) -> None:
    padding = {"committer": {"S": "x" * 300_000}}  # DynamoDB answers with at most 1 MB
    for version, name in ((1, V1), (2, V2)):
        cloud.put_item(version, name, **padding)
    cloud.stage()
    for version in range(4, 10):
        cloud.put_item(version, f"{2**64 - 1 - version}.manifest", **padding)
    listed = cloud.fs()._commits.read("dir/t.lance")
    assert [one.version for one in listed] == list(range(9, 0, -1))
    assert [one.version for one in listed if one.is_staged] == [3]


@pytest.mark.parametrize(
    "path",
    [
        f"dir/t.lance/_versions/../../other/{V3}",
        f"other/_versions/{V3}",
        f"dir/t.lance/_versions/{V2}-0b8",
        "dir/t.lance/_versions/",
        "",
    ],
)
def test_an_item_with_a_path_outside_the_table_is_corrupt(cloud: Cloud, path: str) -> None:
    cloud.put_item(3, V3, path={"S": path})
    with pytest.raises(CorruptFile, match=r"version 3 of 'dir/t\.lance' is said to be at"):
        cloud.open()


def test_errors_of_dynamodb_are_reported(cloud: Cloud) -> None:
    with pytest.raises(ReadFailed, match=r"the table 'absent' of DynamoDB.*check its name"):
        cloud.open(URL.replace(COMMITS, "absent"))
    away = {**cloud.options, "dynamodb_endpoint": "http://127.0.0.1:9"}
    with pytest.raises(ReadFailed, match="Could not connect"):
        S3DynamoDBFileSystem(COMMITS, **away).ls(f"{BUCKET}/dir/t.lance/_versions")
    with pytest.raises(ValueError, match=r"for instance, s3\+ddb://bucket/t\.lance\?ddbTableName"):
        cloud.open(URL.partition("?")[0])
    with pytest.raises(NotALanceTable):
        cloud.open(URL.replace("t.lance", "absent.lance"))


def test_nothing_can_be_written(cloud: Cloud) -> None:
    fs = cloud.fs()
    before = cloud.everything()
    for write in (
        lambda: fs.open(f"{BUCKET}/x", "wb"),
        lambda: fs.pipe_file(f"{BUCKET}/x", b"x"),
        lambda: fs.rm(f"{BUCKET}/dir", recursive=True),
    ):
        with pytest.raises(OSError, match="Read-only"):
            write()
    assert cloud.everything() == before
