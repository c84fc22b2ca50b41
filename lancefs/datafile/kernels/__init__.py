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
        decompress_lz4,
        expand,
        find_buffers,
        find_items,
        find_rows,
        gather,
        join_streams,
        keep,
        open_chunks,
        read_widths,
        split_lists,
        take,
        tally_levels,
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
    from lancefs.datafile.kernels.references import (
        decode_fsst,
        decompress_lz4,
        expand,
        find_buffers,
        find_items,
        find_rows,
        find_strings,
        fsst_lengths,
        gather,
        is_utf8,
        join_chunks,
        join_streams,
        keep,
        keep_strings,
        open_chunks,
        read_widths,
        split_lists,
        take,
        take_strings,
        tally_levels,
        unpack,
        unpack_at,
        unpack_buffers,
        within,
    )

__all__ = [
    "KernelReport",
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
    "kernels_in_use",
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
