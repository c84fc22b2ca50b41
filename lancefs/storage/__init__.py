"""Byte ranges of files on any fsspec filesystem. No other package of lancefs reads files."""

from lancefs.storage.byte_ranges import ByteRange, Bytes, SparseRanges
from lancefs.storage.counters import count_bytes, count_pages, counting
from lancefs.storage.open_files import SMALL_FILE
from lancefs.storage.reads import Reads, run, together
from lancefs.storage.store import (
    SMALL,
    TAIL,
    File,
    Store,
    forget,
    holding_tails,
    read_all,
    read_folder,
    read_joined,
)

__all__ = [
    "SMALL",
    "SMALL_FILE",
    "TAIL",
    "ByteRange",
    "Bytes",
    "File",
    "Reads",
    "SparseRanges",
    "Store",
    "count_bytes",
    "count_pages",
    "counting",
    "forget",
    "holding_tails",
    "read_all",
    "read_folder",
    "read_joined",
    "run",
    "together",
]
