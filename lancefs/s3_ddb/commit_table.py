"""The DynamoDB table that records which manifests are committed versions.

Each item is one version of one Lance table or branch:

- `base_uri` (partition key): path of the table's or branch's directory below the bucket;
- `version` (sort key): number of the version;
- `path`: path of the manifest below the bucket;
- `size`: length of the manifest in bytes; early releases of Lance do not write it.

A writer first puts its manifest under a staging name, `<final name>-<uuid>`, and then puts the
item, which commits the version. Any client may later copy the manifest to its final name and change
`path` accordingly.

Source: `dynamodb.rs` and `external_manifest.rs` in lance-table's `io/commit`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fsspec.asyn import sync

from lancefs.errors import CorruptFile, ReadFailed
from lancefs.table.versions import VERSIONS, parse_name

_MANIFEST = ".manifest"
# Client options of s3fs that apply to DynamoDB as well. `endpoint_url` does not: a server with the
# S3 protocol rarely has the DynamoDB protocol.
_SHARED_OPTIONS = (
    "region_name",
    "verify",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
)


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """A version that DynamoDB records.

    Attributes:
        version: Number of the version.
        name: Final name of the manifest in `_versions/`.
        stored: Recorded name of the manifest in `_versions/`: its final name or its staging name.
        size: Length of the manifest in bytes, or None if the item has none.
    """

    version: int
    name: str
    stored: str
    size: int | None

    @property
    def is_staged(self) -> bool:
        """Whether DynamoDB records the manifest under its staging name."""
        return self.name != self.stored


class CommitTable:
    """A reader of one DynamoDB table of commits.

    Args:
        s3: The `s3fs.S3FileSystem` whose session, credentials and client options are used.
        table: Name of the DynamoDB table.
        endpoint: URL of DynamoDB; by default `DYNAMODB_ENDPOINT` of the environment, else the
            endpoint of the region.
    """

    def __init__(self, s3: Any, table: str, endpoint: str | None) -> None:
        self._s3 = s3
        self._table = table
        self._endpoint = endpoint

    def read(self, base: str, version: int | None = None) -> list[RecordedVersion]:
        """Read the recorded versions of a Lance table or branch, newest first.

        Args:
            base: Path of the table's or branch's directory below the bucket.
            version: Number of one version to read; all versions by default.

        Returns:
            The versions; an empty list if DynamoDB records none.

        Raises:
            ReadFailed: The query failed.
            CorruptFile: The path of an item is not that of a manifest of the version.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            items = sync(self._s3.loop, self._query, base, version)
        except (BotoCoreError, ClientError) as error:
            raise ReadFailed(
                f"the table {self._table!r} of DynamoDB, which knows the versions of {base!r}, "
                f"cannot be read: {error}; check its name, the region (AWS_DEFAULT_REGION, "
                "client_kwargs['region_name']) and the permission dynamodb:Query"
            ) from None
        return [self._parse(base, item) for item in items]

    async def _query(self, base: str, version: int | None) -> list[Mapping[str, Any]]:
        from aiobotocore.config import AioConfig

        await self._s3.set_session()
        condition, values = "base_uri = :base", {":base": {"S": base}}
        if version is not None:
            condition += " AND version = :version"
            values[":version"] = {"N": str(version)}
        # botocore's standard mode makes 3 attempts; the legacy mode makes 10, in half a minute.
        config = AioConfig(retries={"mode": "standard"})
        options = {**self._options(), "config": config}
        async with self._s3.session.create_client("dynamodb", **options) as client:
            pages = client.get_paginator("query").paginate(
                TableName=self._table,
                ConsistentRead=True,
                ScanIndexForward=False,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
            )
            return [item async for page in pages for item in page["Items"]]

    def _options(self) -> dict[str, Any]:
        shared = {**self._s3.kwargs, **self._s3.client_kwargs}
        options = {name: shared[name] for name in _SHARED_OPTIONS if shared.get(name) is not None}
        keys = {
            "aws_access_key_id": self._s3.key,
            "aws_secret_access_key": self._s3.secret,
            "aws_session_token": self._s3.token,
        }
        options |= {name: value for name, value in keys.items() if value is not None}
        if "region_name" not in options and "AWS_REGION" in os.environ:  # botocore ignores it
            options["region_name"] = os.environ["AWS_REGION"]
        endpoint = self._endpoint or os.environ.get("DYNAMODB_ENDPOINT")
        return options if endpoint is None else {**options, "endpoint_url": endpoint}

    def _parse(self, base: str, item: Mapping[str, Any]) -> RecordedVersion:
        version = _number(item, "version")
        path = item.get("path", {}).get("S")
        directory, _, stored = str(path).rpartition("/")
        name = stored[: stored.find(_MANIFEST) + len(_MANIFEST)]
        parsed = parse_name(name)
        if directory != f"{base}/{VERSIONS}" or parsed is None or parsed[0] != version:
            error = CorruptFile(
                f"version {version} of {base!r} is said to be at {path!r}; a manifest of that "
                f"version in {base}/{VERSIONS} was expected"
            )
            error.path = f"the table {self._table!r} of DynamoDB"
            raise error
        return RecordedVersion(version, name, stored, _number(item, "size"))


def _number(item: Mapping[str, Any], key: str) -> int | None:
    value = str(item.get(key, {}).get("N", ""))
    return int(value) if value.isascii() and value.isdigit() else None
