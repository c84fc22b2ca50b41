"""The table of DynamoDB that decides which manifests are versions.

An item stands for a version: `base_uri` (the directory of the Lance table or branch below its
bucket, the partition key), `version` (a number, the sort key), `path` (of the manifest below the
bucket) and, since some release, `size`. A writer first puts its manifest beside its final name, as
`<name>-<uuid>`, and then this item, which makes it a version. After that anyone may copy the
manifest to its final name and change `path` to that.

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
# What s3fs takes for its client and the client of DynamoDB needs too. Not `endpoint_url`: an
# endpoint that speaks S3 rarely speaks DynamoDB.
_SHARED = (
    "region_name",
    "verify",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A version, as DynamoDB knows it.

    Attributes:
        version: Its number.
        name: The final name of its manifest, in `_versions/`.
        stored: The name that it has now: the final one, or where it was staged.
        size: In bytes, where the writer said.
    """

    version: int
    name: str
    stored: str
    size: int | None

    @property
    def is_staged(self) -> bool:
        """Whether it does not have its final name yet, as far as DynamoDB knows."""
        return self.name != self.stored


class Commits:
    """Reads a table of DynamoDB.

    Args:
        s3: The `s3fs.S3FileSystem` whose session and credentials are used.
        table: The name of the table.
        endpoint: Where DynamoDB is; that of the region by default.
    """

    def __init__(self, s3: Any, table: str, endpoint: str | None = None) -> None:
        self._s3 = s3
        self._table = table
        self._endpoint = endpoint

    def read(self, base: str, version: int | None = None) -> list[Recorded]:
        """Read which versions there are, newest first; none where DynamoDB knows no such table.

        Args:
            base: The directory of the Lance table or branch, below its bucket.
            version: The one that is wanted; all by default.

        Raises:
            ReadFailed: DynamoDB refused or failed.
            CorruptFile: An item makes no sense.
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
        return [self._recorded(base, item) for item in items]

    async def _query(self, base: str, version: int | None) -> list[Mapping[str, Any]]:
        from aiobotocore.config import AioConfig

        await self._s3.set_session()
        condition, values = "base_uri = :base", {":base": {"S": base}}
        if version is not None:
            condition += " AND version = :version"
            values[":version"] = {"N": str(version)}
        # Three attempts, not the ten of old that take half a minute.
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
        options = {name: shared[name] for name in _SHARED if shared.get(name) is not None}
        keys = {
            "aws_access_key_id": self._s3.key,
            "aws_secret_access_key": self._s3.secret,
            "aws_session_token": self._s3.token,
        }
        options |= {name: value for name, value in keys.items() if value is not None}
        if "region_name" not in options and "AWS_REGION" in os.environ:  # botocore does not read it
            options["region_name"] = os.environ["AWS_REGION"]
        endpoint = self._endpoint or os.environ.get("DYNAMODB_ENDPOINT")
        return options if endpoint is None else {**options, "endpoint_url": endpoint}

    def _recorded(self, base: str, item: Mapping[str, Any]) -> Recorded:
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
        return Recorded(version, name, stored, _number(item, "size"))


def _number(item: Mapping[str, Any], key: str) -> int | None:
    value = str(item.get(key, {}).get("N", ""))
    return int(value) if value.isascii() and value.isdigit() else None
