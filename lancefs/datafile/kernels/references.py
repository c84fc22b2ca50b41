"""All kernels in NumPy, by the names that decoders know them by.

Where the compiled kernels are in use, these are imported when one of those meets what it leaves to
them: damage, of which they say what is wrong, and strings of more than 2 GiB in all.
"""

from __future__ import annotations

from lancefs.datafile.kernels.bitpacking import (
    read_widths,
    unpack,
    unpack_at,
    unpack_buffers,
)
from lancefs.datafile.kernels.chunks import find_buffers, open_chunks
from lancefs.datafile.kernels.fsst import decode as decode_fsst
from lancefs.datafile.kernels.fsst import lengths as fsst_lengths
from lancefs.datafile.kernels.intervals import within
from lancefs.datafile.kernels.items import find_items
from lancefs.datafile.kernels.lists import find_rows, split_lists, tally_levels
from lancefs.datafile.kernels.lookup import take, take_strings
from lancefs.datafile.kernels.lz4 import decompress_lz4
from lancefs.datafile.kernels.runs import expand
from lancefs.datafile.kernels.segments import gather
from lancefs.datafile.kernels.selection import keep, keep_strings
from lancefs.datafile.kernels.streams import join_streams
from lancefs.datafile.kernels.strings import find_strings, join_chunks
from lancefs.datafile.kernels.utf8 import is_utf8

__all__ = [
    "decode_fsst",
    "decompress_lz4",
    "expand",
    "find_buffers",
    "find_items",
    "find_rows",
    "find_strings",
    "fsst_lengths",
    "gather",
    "is_utf8",
    "join_chunks",
    "join_streams",
    "keep",
    "keep_strings",
    "open_chunks",
    "read_widths",
    "split_lists",
    "take",
    "take_strings",
    "tally_levels",
    "unpack",
    "unpack_at",
    "unpack_buffers",
    "within",
]
