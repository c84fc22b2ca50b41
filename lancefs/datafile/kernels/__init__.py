"""The hot loops of decoding: each in NumPy, and a twin of most in C.

The NumPy functions, one file a subject, are the definition of right. `compiled` and
`compiled_strings` have functions of the same names and signatures that give the same bytes and
refuse the same damage. Which of them decoders get is decided here, when this module is imported;
the environment variable `LANCEFS_KERNELS` says what is wanted (see `library`).
"""

from __future__ import annotations

from lancefs.datafile.kernels.library import LIBRARY, KernelReport, kernels_in_use

if LIBRARY is not None:
    from lancefs.datafile.kernels.compiled import (
        expand,
        find_buffers,
        gather,
        join_streams,
        keep,
        open_chunks,
        read_widths,
        split_lists,
        take,
        unpack,
        unpack_at,
        unpack_buffers,
        within,
    )
    from lancefs.datafile.kernels.compiled_strings import (
        decode_fsst,
        find_strings,
        fsst_lengths,
        is_utf8,
        join_chunks,
        keep_strings,
        take_strings,
    )
else:
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
    from lancefs.datafile.kernels.lists import split_lists
    from lancefs.datafile.kernels.lookup import take, take_strings
    from lancefs.datafile.kernels.runs import expand
    from lancefs.datafile.kernels.segments import gather
    from lancefs.datafile.kernels.selection import keep, keep_strings
    from lancefs.datafile.kernels.streams import join_streams
    from lancefs.datafile.kernels.strings import find_strings, join_chunks
    from lancefs.datafile.kernels.utf8 import is_utf8

__all__ = [
    "KernelReport",
    "decode_fsst",
    "expand",
    "find_buffers",
    "find_strings",
    "fsst_lengths",
    "gather",
    "is_utf8",
    "join_chunks",
    "join_streams",
    "keep",
    "keep_strings",
    "kernels_in_use",
    "open_chunks",
    "read_widths",
    "split_lists",
    "take",
    "take_strings",
    "unpack",
    "unpack_at",
    "unpack_buffers",
    "within",
]
