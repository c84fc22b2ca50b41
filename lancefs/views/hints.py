"""What is meant by options and paths that the filesystem does not have, for its errors."""

from __future__ import annotations

import re
from collections.abc import Collection

from lancefs.masking import mask_secrets

# A path that is the URL of a store of its own.
_URL = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# Options that fsspec itself passes to filesystems.
_FSSPEC_OPTIONS = {
    "asynchronous",
    "loop",
    "batch_size",
    "use_listings_cache",
    "listings_expiry_time",
    "max_paths",
    "skip_instance_cache",
}
# What is meant by other options.
_MEANT = {
    **dict.fromkeys(("path", "table", "target", "uri", "url"), "the table is given as fo=…"),
    **dict.fromkeys(
        ("branch", "ref", "tag", "version"), "a version is a path, such as versions/2.arrow"
    ),
}


def check_options(options: Collection[str], protocol: str | None) -> None:
    """Check that options of the filesystem are those that fsspec passes to all.

    Args:
        options: Names of options, other than those of the filesystem itself.
        protocol: Protocol of the store of the tables, which fsspec tells of the URLs of a chain;
            None where there is no chain.

    Raises:
        TypeError: One is not; the message says how it is given.
    """
    unknown = set(options) - _FSSPEC_OPTIONS
    if unknown:
        name = min(unknown)
        hint = _meant_option(name, protocol)
        raise TypeError(f"LanceFileSystem got an unexpected keyword argument {name!r}; {hint}")


def meant_url(path: str) -> str | None:
    """Say how a table is reached whose URL is given as a path; None of other paths.

    Args:
        path: A path that begins in no table, perhaps with the path of a file in a table behind it.
    """
    if not _URL.match(path):
        return None
    table, _, below = path.partition(".lance/")
    table = mask_secrets(f"{table}.lance" if below else path)
    return (
        "paths of this filesystem begin in one store; give it the table, "
        f"fsspec.filesystem('lance', fo={table!r}), or use a chained URL, "
        f"lance://{below or 'latest.arrow'}::{table}"
    )


def _meant_option(name: str, protocol: str | None) -> str:
    """Say how something is given that is no option of the filesystem."""
    if name in _MEANT:
        return _MEANT[name]
    if protocol is None:
        return "options of the store are given as target_options={…}"
    return (
        "options of the store are given by its protocol: "
        f"storage_options={{{protocol!r}: {{…}}}} of pandas and others, {protocol}={{…}} of fsspec"
    )
