"""`S3DynamoDBFileSystem`: S3, with the versions of tables that DynamoDB records.

>>> import lancefs
>>> lancefs.open("s3+ddb://bucket/t.lance?ddbTableName=commits")  # doctest: +SKIP

Paths are those of S3. Only directories named `_versions` differ, where DynamoDB decides which
manifests exist:

- A committed manifest that still has its staging name appears under its final name; its bytes are
  read from the staged file.
- Manifests of versions later than the newest recorded one do not appear.
- A directory without records in DynamoDB appears as it is on S3.

Lance would copy a staged manifest to its final name and update the item; this filesystem writes
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from fsspec.utils import stringify_path

from lancefs.s3_ddb.commit_table import CommitTable, RecordedVersion
from lancefs.storage.filesystems import cat_ranges, with_connections
from lancefs.table.versions import VERSIONS, parse_name
from lancefs.views.read_only import ReadOnlyFileSystem, refuse

T = TypeVar("T")

_QUERY = re.compile(r"\?ddbTableName=[^/?]*$")
_EXAMPLE = "s3+ddb://bucket/t.lance?ddbTableName=commits"


class S3DynamoDBFileSystem(ReadOnlyFileSystem):
    """S3, read-only, with DynamoDB as the authority on which versions a table has.

    Args:
        ddb_table_name: Name of the DynamoDB table; in a URL `?ddbTableName=…`.
        dynamodb_endpoint: URL of DynamoDB; by default `DYNAMODB_ENDPOINT` of the environment, else
            the endpoint of the region.
        **options: Arguments of `s3fs.S3FileSystem`. Its credentials and region also apply to
            DynamoDB.

    Attributes:
        fs: The `s3fs.S3FileSystem` that reads the files, by default without a cache of listings.
        ddb_table_name: Name of the DynamoDB table.

    Raises:
        ImportError: s3fs is not installed.
        ValueError: `ddb_table_name` is missing.
    """

    protocol = ("s3+ddb", "s3", "s3a")

    def __init__(
        self,
        ddb_table_name: str | None = None,
        dynamodb_endpoint: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not ddb_table_name:
            raise ValueError(f"no table of DynamoDB is named; expected, for instance, {_EXAMPLE}")
        try:
            from s3fs import S3FileSystem
        except ImportError as error:
            raise ImportError("s3+ddb:// needs s3fs: pip install 'lancefs[s3]'") from error
        # A cached listing would miss a manifest that was copied to its final name later.
        self.fs = S3FileSystem(**{"use_listings_cache": False, **with_connections("s3", options)})
        self.ddb_table_name = ddb_table_name
        self._commits = CommitTable(self.fs, ddb_table_name, dynamodb_endpoint)
        # Path of each staged manifest by its final path, as of the last look at DynamoDB.
        self._staged: dict[str, str] = {}

    # Paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(item) for item in path]
        return super()._strip_protocol(_QUERY.sub("", stringify_path(path)))

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        names = parse_qs(urlsplit(path).query).get("ddbTableName", [])
        return {"ddb_table_name": names[0]} if names else {}

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path, which names the DynamoDB table."""
        return f"s3+ddb://{self._strip_protocol(name)}?ddbTableName={self.ddb_table_name}"

    # Reading

    def ls(
        self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any
    ) -> list[dict[str, Any]] | list[str]:
        """List a directory; in `_versions`, the manifests that DynamoDB records.

        Args:
            path: The directory.
            detail: Whether to return a dictionary for each entry, as `info` does, or its path only.
            refresh: Whether to ignore a cached listing of s3fs.
            **kwargs: Arguments of `S3FileSystem.ls`.

        Raises:
            FileNotFoundError: The directory does not exist.
            ReadFailed: The query of DynamoDB failed.
            CorruptFile: An item of DynamoDB is malformed.
        """
        path = self._strip_protocol(path)
        base, _, name = path.rpartition("/")
        # DynamoDB first: a manifest that is copied to its final name meanwhile is in the listing.
        recorded = self._commits.read(_below_bucket(base)) if name == VERSIONS else []
        entries = self.fs.ls(path, detail=True, refresh=refresh, **kwargs)
        if recorded:
            entries = self._apply_records(path, entries, recorded)
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Return type and size (in bytes) of a file or directory; arguments as for s3fs."""
        path = self._strip_protocol(path)
        return {**self._read(path, lambda place: self.fs.info(place, **kwargs)), "name": path}

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Read a file or one byte range of a file; arguments as for s3fs."""
        path = self._strip_protocol(path)
        data: bytes = self._read(path, lambda place: self.fs.cat_file(place, start=start, end=end))
        return data

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Read byte ranges of files concurrently; arguments as for s3fs."""
        paths = self._strip_protocol(list(paths))
        starts = starts if isinstance(starts, Sequence) else [starts] * len(paths)
        ends = ends if isinstance(ends, Sequence) else [ends] * len(paths)
        places = [self._staged.get(path, path) for path in paths]
        if max_gap is None and not kwargs:
            results = cat_ranges(self.fs)(places, starts, ends, on_error="return")
        else:
            results = self.fs.cat_ranges(places, starts, ends, max_gap, on_error="return", **kwargs)
        for position, path in enumerate(paths):
            if isinstance(results[position], FileNotFoundError) and _manifest_version(path):
                try:
                    results[position] = self.cat_file(path, starts[position], ends[position])
                except FileNotFoundError as error:
                    results[position] = error
            if on_error == "raise" and isinstance(results[position], BaseException):
                raise results[position]
        return results

    def _open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        if mode != "rb":
            refuse(path)
        kwargs.pop("autocommit", None)  # `AbstractFileSystem.open` passes it, for writers
        return self._read(path, lambda place: self.fs.open(place, mode, **kwargs))

    def created(self, path: str) -> Any:
        """Return when a file was last written: S3 records no other time."""
        return self.modified(path)

    def modified(self, path: str) -> Any:
        """Return when a file was last written."""
        return self.info(path).get("LastModified")

    def invalidate_cache(self, path: str | None = None) -> None:
        """Invalidate the listings that s3fs caches, if the options let it cache any."""
        self.fs.invalidate_cache(None if path is None else self._strip_protocol(path))

    # Inside

    def _apply_records(
        self, path: str, entries: list[dict[str, Any]], recorded: list[RecordedVersion]
    ) -> list[dict[str, Any]]:
        """Return the entries of `_versions` as DynamoDB records them.

        Items of versions that were cleaned up stay in DynamoDB. A record with a final name
        therefore adds no entry to the listing. The newest version is the exception: if its
        manifest is missing, opening the table must fail instead of returning an older version.
        """
        newest = recorded[0].version
        names = {entry["name"].rpartition("/")[2] for entry in entries}
        shown = [entry for entry in entries if (_manifest_version(entry["name"]) or 0) <= newest]
        for record in recorded:
            if record.name in names or not (record.is_staged or record.version == newest):
                continue
            name = f"{path}/{record.name}"
            if record.is_staged:
                self._staged[name] = f"{path}/{record.stored}"
            shown.append({"name": name, "Key": name, "type": "file", "size": record.size})
        return shown

    def _read(self, path: str, read: Callable[[str], T]) -> T:
        """Read a file; read a manifest under its staging name if it has no other.

        A writer may move a staged manifest to its final name at any time, so both are tried.

        Args:
            path: Path of the file, for a manifest with its final name.
            read: Reads the file at the path that it gets.
        """
        staged = self._staged.get(path)
        if staged is not None:
            try:
                return read(staged)
            except FileNotFoundError:
                del self._staged[path]
        try:
            return read(path)
        except FileNotFoundError:
            version = _manifest_version(path)
            base = path.rpartition(f"/{VERSIONS}/")[0]
            recorded = self._commits.read(_below_bucket(base), version) if version else []
            if not recorded or not recorded[0].is_staged:
                raise
            self._staged[path] = f"{base}/{VERSIONS}/{recorded[0].stored}"
            return read(self._staged[path])


def _below_bucket(path: str) -> str:
    return path.partition("/")[2]


def _manifest_version(path: str) -> int | None:
    """Return the version whose manifest has a path as its final name; None for other files."""
    directory, _, name = path.rpartition("/")
    parsed = parse_name(name) if directory.endswith(f"/{VERSIONS}") else None
    return None if parsed is None else parsed[0]
