"""Byte ranges of files on any fsspec filesystem. No other package of lancefs opens any.

Kernels (`datafile.kernels`) read files, and files of directories, that were opened here.
"""

from lancefs.storage.byte_ranges import ByteRange, Bytes, SparseRanges
from lancefs.storage.counters import count_bytes, count_pages, counting
from lancefs.storage.file import GAP, SMALL, TAIL, File, forget, holding_tails, prefetch, read_all
from lancefs.storage.local_folders import opened_folder, read_folder, read_joined
from lancefs.storage.open_files import (
    READ_PLAIN,
    SMALL_FILE,
    check_whole,
    file_identity,
)
from lancefs.storage.reads import Reads, run, together, with_prefetch
from lancefs.storage.shared_budget import SharedBudget
from lancefs.storage.store import Store

__all__ = [
    "GAP",
    "READ_PLAIN",
    "SMALL",
    "SMALL_FILE",
    "TAIL",
    "ByteRange",
    "Bytes",
    "File",
    "Reads",
    "SharedBudget",
    "SparseRanges",
    "Store",
    "check_whole",
    "count_bytes",
    "count_pages",
    "counting",
    "file_identity",
    "forget",
    "holding_tails",
    "opened_folder",
    "prefetch",
    "read_all",
    "read_folder",
    "read_joined",
    "run",
    "together",
    "with_prefetch",
]
