"""The hot loops of decoding, each in NumPy and in C.

A file per subject holds the NumPy kernels, which define what is right. Below each kernel stands its
compiled twin, a function that calls the C kernel of the same name: it returns the same bytes and
refuses the same damage. Decoders import kernels from here. The imports below are the list of all
kernels; if the C library is in use (see `library`), the twins replace them.

Kernels that read messages or files (`files`, `footers`, `manifests`) have no twin: protobuf, and
the readers of single files, do the same.
"""

from __future__ import annotations

from lancefs.datafile.kernels.bitpacking import read_widths as read_widths
from lancefs.datafile.kernels.bitpacking import unpack as unpack
from lancefs.datafile.kernels.bitpacking import unpack_at as unpack_at
from lancefs.datafile.kernels.bitpacking import unpack_buffers as unpack_buffers
from lancefs.datafile.kernels.bounds import text_bounds as text_bounds
from lancefs.datafile.kernels.calls import TWINS
from lancefs.datafile.kernels.chunks import find_buffers as find_buffers
from lancefs.datafile.kernels.chunks import open_chunks as open_chunks
from lancefs.datafile.kernels.codes import compare_parts as compare_parts
from lancefs.datafile.kernels.codes import sum_codes as sum_codes
from lancefs.datafile.kernels.decimals import to_decimal64 as to_decimal64
from lancefs.datafile.kernels.ends import decode_ends as decode_ends
from lancefs.datafile.kernels.files import identify_files as identify_files
from lancefs.datafile.kernels.files import read_files as read_files
from lancefs.datafile.kernels.footers import find_pages as find_pages
from lancefs.datafile.kernels.frames import frame_sizes as frame_sizes
from lancefs.datafile.kernels.fsst import decode_fsst as decode_fsst
from lancefs.datafile.kernels.fsst import fsst_lengths as fsst_lengths
from lancefs.datafile.kernels.intervals import within as within
from lancefs.datafile.kernels.items import find_items as find_items
from lancefs.datafile.kernels.jsonb import write_json as write_json
from lancefs.datafile.kernels.layers import unravel as unravel
from lancefs.datafile.kernels.levels import take_levels as take_levels
from lancefs.datafile.kernels.library import LIBRARY
from lancefs.datafile.kernels.library import KernelReport as KernelReport
from lancefs.datafile.kernels.library import kernels_in_use as kernels_in_use
from lancefs.datafile.kernels.lists import find_rows as find_rows
from lancefs.datafile.kernels.lists import tally_parts as tally_parts
from lancefs.datafile.kernels.lookup import take as take
from lancefs.datafile.kernels.lookup import take_strings as take_strings
from lancefs.datafile.kernels.lz4 import decompress_lz4 as decompress_lz4
from lancefs.datafile.kernels.manifests import find_data_files as find_data_files
from lancefs.datafile.kernels.manifests import find_fragments as find_fragments
from lancefs.datafile.kernels.membership import NumberKeys as NumberKeys
from lancefs.datafile.kernels.membership import TextSet as TextSet
from lancefs.datafile.kernels.membership import among as among
from lancefs.datafile.kernels.membership import among_numbers as among_numbers
from lancefs.datafile.kernels.membership import number_texts as number_texts
from lancefs.datafile.kernels.packed import find_packed as find_packed
from lancefs.datafile.kernels.packed import restore_pages as restore_pages
from lancefs.datafile.kernels.parts import holds as holds
from lancefs.datafile.kernels.phrases import find_common as find_common
from lancefs.datafile.kernels.phrases import follow_words as follow_words
from lancefs.datafile.kernels.plain import read_plain as read_plain
from lancefs.datafile.kernels.points import join_leaves as join_leaves
from lancefs.datafile.kernels.points import join_texts as join_texts
from lancefs.datafile.kernels.points import take_points as take_points
from lancefs.datafile.kernels.runs import expand as expand
from lancefs.datafile.kernels.scores import sum_scores as sum_scores
from lancefs.datafile.kernels.segments import gather as gather
from lancefs.datafile.kernels.selection import keep as keep
from lancefs.datafile.kernels.selection import keep_lists as keep_lists
from lancefs.datafile.kernels.selection import keep_strings as keep_strings
from lancefs.datafile.kernels.slots import copy_ranges as copy_ranges
from lancefs.datafile.kernels.slots import find_spans as find_spans
from lancefs.datafile.kernels.streams import join_streams as join_streams
from lancefs.datafile.kernels.strings import find_strings as find_strings
from lancefs.datafile.kernels.strings import join_chunks as join_chunks
from lancefs.datafile.kernels.strings import join_letters as join_letters
from lancefs.datafile.kernels.tallies import add_positions as add_positions
from lancefs.datafile.kernels.tallies import count_sums as count_sums
from lancefs.datafile.kernels.texts import read_texts as read_texts
from lancefs.datafile.kernels.utf8 import is_utf8 as is_utf8
from lancefs.datafile.kernels.vectors import compare_codes as compare_codes
from lancefs.datafile.kernels.vectors import compare_floats as compare_floats
from lancefs.datafile.kernels.vectors import differing_bits as differing_bits
from lancefs.datafile.kernels.vectors import keep_nearest as keep_nearest
from lancefs.datafile.kernels.vectors import multiply_codes as multiply_codes
from lancefs.datafile.kernels.vectors import widen_halves as widen_halves

if LIBRARY is not None:
    globals().update(TWINS)
