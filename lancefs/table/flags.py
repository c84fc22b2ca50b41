"""Feature flags: what a reader must support to read a table.

Format page: versioning (`docs/src/format/table/versioning.md`).
"""

from __future__ import annotations

from enum import IntFlag

from lancefs.errors import UnsupportedFeature


class ReaderFlags(IntFlag):
    """Bits of the reader feature flags that Lance has defined, up to release 14."""

    DELETION_FILES = 1 << 0
    STABLE_ROW_IDS = 1 << 1
    V2_FILES = 1 << 2  # no longer used
    TABLE_CONFIG = 1 << 3
    BASE_PATHS = 1 << 4
    NO_TRANSACTION_FILES = 1 << 5
    DATA_OVERLAYS = 1 << 6  # concerns fragments with overlays
    COVERING_INDEX_FIELDS = 1 << 7  # concerns searches in indices, not rows
    MIXED_FILE_VERSIONS = 1 << 8
    FRAGMENT_REUSE_STABLE_IDS = 1 << 9  # indices
    FRAGMENT_REUSE_INDEX = 1 << 10  # indices
    HIDDEN_ROW_LINEAGE = 1 << 11  # row ids and versions in hidden columns of data files
    FRAGMENT_TREE = 1 << 12
    INDEPENDENT_COVERING_FIELDS = 1 << 13  # indices
    MANAGED_BLOBS = 1 << 14  # concerns the place of a blob's bytes


# Bits whose tables this release does not read, and what Lance uses them for.
_REFUSED = {
    ReaderFlags.FRAGMENT_TREE: "fragments in a tree of files (reserved by Lance 14)",
    1 << 15: "field ids that are never reused (Lance 14 keeps this one for writers)",
    1 << 16: "zone write seeds (reserved by Lance 14)",
}
_KNOWN = sum(ReaderFlags) & ~sum(_REFUSED)


def check_reader_flags(flags: int) -> ReaderFlags:
    """Check that this release reads tables with a manifest's reader feature flags; return them.

    Raises:
        UnsupportedFeature: Flags are set that this release does not read or does not know; the
            message names all of them.
    """
    unsupported = flags & ~_KNOWN
    if unsupported:
        bits = [bit for bit in range(unsupported.bit_length()) if unsupported >> bit & 1]
        raise UnsupportedFeature(
            "the table needs what this release of lancefs does not read: "
            + ", ".join(f"reader feature flag {1 << bit} ({_name(bit)})" for bit in bits)
        )
    return ReaderFlags(flags)


def _name(bit: int) -> str:
    return _REFUSED.get(1 << bit, "not known; introduced after Lance 14")
