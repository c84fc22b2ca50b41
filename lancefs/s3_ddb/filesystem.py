"""`S3DynamoDBFileSystem`: S3, with the versions of tables that DynamoDB knows of.

>>> import lancefs
>>> lancefs.open("s3+ddb://bucket/t.lance?ddbTableName=commits")  # doctest: +SKIP

It shows S3 as it is, except for the directories `_versions`. There DynamoDB decides: a manifest
that was committed, but not yet copied to its final name, is shown under that name and read where it
lies, and a version later than DynamoDB knows is not shown. A table that DynamoDB does not know is
shown as it is. Lance itself would copy the manifest and change the item; here nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from fsspec.utils import stringify_path

from lancefs.s3_ddb.commit_table import Commits, Recorded
from lancefs.table.versions import VERSIONS, parse_name
from lancefs.views.read_only import ReadOnlyFileSystem, refuse

T = TypeVar("T")

_QUERY = re.compile(r"\?ddbTableName=[^/?]*$")
_EXAMPLE = "s3+ddb://bucket/t.lance?ddbTableName=commits"


class S3DynamoDBFileSystem(ReadOnlyFileSystem):
    """S3 with DynamoDB as the judge of which versions a table has; read-only.

    Args:
        ddb_table_name: The table of DynamoDB; a URL gives it as `?ddbTableName=…`.
        dynamodb_endpoint: Where DynamoDB is: `DYNAMODB_ENDPOINT` of the environment, or that of the
            region, by default.
        **options: For `s3fs.S3FileSystem`. Its credentials and region are DynamoDB's too.

    Raises:
        ImportError: s3fs is not installed.
        ValueError: No table of DynamoDB is named.
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
        # A listing that s3fs remembers would hide a manifest that got its final name since.
        self.fs = S3FileSystem(**{"use_listings_cache": False, **options})
        self.ddb_table_name = ddb_table_name
        self._commits = Commits(self.fs, ddb_table_name, dynamodb_endpoint)
        self._staged: dict[str, str] = {}  # where manifests lie that were staged when listed

    # Paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return super()._strip_protocol(_QUERY.sub("", stringify_path(path)))

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        names = parse_qs(urlsplit(path).query).get("ddbTableName", [])
        return {"ddb_table_name": names[0]} if names else {}

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path, with the table of DynamoDB."""
        return f"s3+ddb://{self._strip_protocol(name)}?ddbTableName={self.ddb_table_name}"

    # Reading

    def ls(
        self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any
    ) -> list[dict[str, Any]] | list[str]:
        """List a directory; in `_versions`, what DynamoDB says are versions.

        Args:
            path: The directory.
            detail: Whether to return what is known of each file, or the names alone.
            refresh: Whether to list S3 again, where it is remembered.
            **kwargs: For s3fs.

        Raises:
            FileNotFoundError: There is nothing.
            ReadFailed: DynamoDB refused or failed.
            CorruptFile: DynamoDB says what makes no sense.
        """
        path = self._strip_protocol(path)
        base, _, name = path.rpartition("/")
        # DynamoDB first: what gets its final name in between is then in the listing.
        recorded = self._commits.read(_below_bucket(base)) if name == VERSIONS else []
        entries = self.fs.ls(path, detail=True, refresh=refresh, **kwargs)
        if recorded:
            entries = self._judged(path, entries, recorded)
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Return what is known of a file or directory; arguments as for s3fs."""
        path = self._strip_protocol(path)
        return {**self._read(path, lambda place: self.fs.info(place, **kwargs)), "name": path}

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Read a file, or a range of it; arguments as for s3fs."""
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
        """Read ranges of files, concurrently; arguments as for s3fs."""
        paths = self._strip_protocol(list(paths))
        starts = starts if isinstance(starts, Sequence) else [starts] * len(paths)
        ends = ends if isinstance(ends, Sequence) else [ends] * len(paths)
        places = [self._staged.get(path, path) for path in paths]
        found: list[Any] = self.fs.cat_ranges(
            places, starts, ends, max_gap, on_error="return", **kwargs
        )
        for position, path in enumerate(paths):
            if isinstance(found[position], FileNotFoundError) and _manifest_version(path):
                try:
                    found[position] = self.cat_file(path, starts[position], ends[position])
                except FileNotFoundError as error:
                    found[position] = error
            if on_error == "raise" and isinstance(found[position], BaseException):
                raise found[position]
        return found

    def _open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        if mode != "rb":
            refuse(path)
        kwargs.pop("autocommit", None)  # `AbstractFileSystem.open` means it for writers
        return self._read(path, lambda place: self.fs.open(place, mode, **kwargs))

    def created(self, path: str) -> Any:
        """Return when a file was made, as far as S3 tells."""
        return self.modified(path)

    def modified(self, path: str) -> Any:
        """Return when a file was last written."""
        return self.info(path).get("LastModified")

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget listings of S3, where the options let s3fs keep them."""
        self.fs.invalidate_cache(None if path is None else self._strip_protocol(path))

    # Inside

    def _judged(
        self, path: str, entries: list[dict[str, Any]], recorded: list[Recorded]
    ) -> list[dict[str, Any]]:
        """Return the entries of `_versions`, with what DynamoDB says of versions.

        The items of versions that were cleaned up stay in DynamoDB, so that a final name alone does
        not prove that there is such a file. Of the newest it does: should it be gone, opening it
        must fail, and not give the version before.
        """
        newest = recorded[0].version
        names = {entry["name"].rpartition("/")[2] for entry in entries}
        kept = [entry for entry in entries if (_manifest_version(entry["name"]) or 0) <= newest]
        for one in recorded:
            if one.name in names or not (one.is_staged or one.version == newest):
                continue
            name = f"{path}/{one.name}"
            if one.is_staged:
                self._staged[name] = f"{path}/{one.stored}"
            kept.append({"name": name, "Key": name, "type": "file", "size": one.size})
        return kept

    def _read(self, path: str, read: Callable[[str], T]) -> T:
        """Read a file where it lies: a staged manifest may get its final name at any time."""
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
    """The version that a path is the final name of the manifest of; None for any other file."""
    directory, _, name = path.rpartition("/")
    parsed = parse_name(name) if directory.endswith(f"/{VERSIONS}") else None
    return None if parsed is None else parsed[0]
