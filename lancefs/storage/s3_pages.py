"""The first page of a listing on S3, which lists a thousand names by a request, in their order."""

from __future__ import annotations

from typing import Any

# Names in a page: the most that S3 gives.
PAGE = 1000
# What the names of buckets end with whose listings are in no order: directory buckets.
_UNORDERED = "--x-s3"


def lists_in_order(fs: Any) -> bool:
    """Return whether a filesystem is one of s3fs itself, and not of a class derived from it.

    One that is aware of the versions of objects lists by another request.

    Args:
        fs: Any fsspec filesystem.
    """
    kind = type(fs)  # looked at by name, so that s3fs is not imported for other stores
    is_s3fs = (kind.__module__, kind.__name__) == ("s3fs.core", "S3FileSystem")
    return is_s3fs and not (fs.version_aware or fs.asynchronous)


def first_page(fs: Any, path: str) -> tuple[list[dict[str, object]], bool] | None:
    """Ask for the first files of a directory.

    Args:
        fs: A filesystem for which `lists_in_order` is true.
        path: The directory, as `fs` spells it.

    Returns:
        The files, each with the `info` that `fs.ls` gives for it as far as it is used, and whether
        they are all that the directory has. None where a bucket lists in no order.

    Raises:
        OSError: As `fs.ls` does.
    """
    bucket, key, _ = fs.split_path(path)
    if bucket.endswith(_UNORDERED):
        return None
    asked = {"Bucket": bucket, "Prefix": f"{key}/", "Delimiter": "/", "MaxKeys": PAGE}
    answer = fs.call_s3("list_objects_v2", **asked, **fs.req_kw)
    infos = [
        {"name": f"{bucket}/{one['Key']}", "size": one["Size"], "ETag": one["ETag"], "type": "file"}
        for one in answer.get("Contents", ())
    ]
    return infos, not answer["IsTruncated"]
