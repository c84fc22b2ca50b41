"""Feature flags: what a reader must know to read a table.

Format page: versioning (`docs/src/format/table/versioning.md`).
"""

from __future__ import annotations

from enum import IntFlag

from lancefs.errors import UnsupportedFeature


class ReaderFlags(IntFlag):
    """The bits that Lance has given a meaning, up to release 14."""

    DELETION_FILES = 1 << 0
    STABLE_ROW_IDS = 1 << 1
    V2_FILES = 1 << 2  # no longer used
    TABLE_CONFIG = 1 << 3
    BASE_PATHS = 1 << 4
    NO_TRANSACTION_FILES = 1 << 5
    DATA_OVERLAYS = 1 << 6  # concerns the fragments that have some
    COVERING_INDEX_FIELDS = 1 << 7  # concerns searches in indices, not rows
    MIXED_FILE_VERSIONS = 1 << 8
    FRAGMENT_REUSE_STABLE_IDS = 1 << 9  # indices
    FRAGMENT_REUSE_INDEX = 1 << 10  # indices
    HIDDEN_ROW_LINEAGE = 1 << 11  # concerns row ids, which then lie in columns of data files
    FRAGMENT_TREE = 1 << 12
    INDEPENDENT_COVERING_FIELDS = 1 << 13  # indices
    MANAGED_BLOBS = 1 << 14  # concerns where the bytes of a blob lie


# Bits whose tables cannot be read here, or not yet, and what is known of them.
_REFUSED = {
    ReaderFlags.FRAGMENT_TREE: "fragments in a tree of files (reserved by Lance 14)",
    1 << 15: "field ids that are never reused (Lance 14 keeps this one for writers)",
    1 << 16: "zone write seeds (reserved by Lance 14)",
}
_KNOWN = sum(ReaderFlags) & ~sum(_REFUSED)


def check_reader_flags(flags: int) -> ReaderFlags:
    """Return the reader feature flags of a manifest, if this release reads such a table.

    Raises:
        UnsupportedFeature: A bit is set that this release does not read, or does not know; all such
            bits are named.
    """
    unread = flags & ~_KNOWN
    if unread:
        bits = [bit for bit in range(unread.bit_length()) if unread >> bit & 1]
        raise UnsupportedFeature(
            "the table needs what this release of lancefs does not read: "
            + ", ".join(f"reader feature flag {1 << bit} ({_name(bit)})" for bit in bits)
        )
    return ReaderFlags(flags)


def _name(bit: int) -> str:
    return _REFUSED.get(1 << bit, "not known; introduced after Lance 14")
