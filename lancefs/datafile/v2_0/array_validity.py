"""Arrays of data files 2.0 as validity (see `datafile.validity`).

Validity is stored as bits beside the values, or in the end offsets of strings. The null values of
dictionaries are among their indices or their items, so that these are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.outlines import without_values, zeros
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_0 import encodings
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, name_of
from lancefs.datafile.validity import VALIDITY
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import Reads

# Encodings of which no value is null.
_NEVER_NULL = {"flat", "bitpacked", "bitpacked_for_non_neg", "fixed_size_binary"}


def read(encoding: pb.ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange]) -> Reads[Slots]:
    """Read the validity of rows of an array of a page.

    Args:
        encoding: Description of the array.
        page: The page.
        ranges: Rows of the array, ascending; none is empty.

    Raises:
        CorruptFile: The bytes contradict the description.
        UnsupportedFeature: The encoding is not known, or not one of data files 2.0.
    """
    name = name_of(encoding)
    if name == "nullable":
        return (yield from encodings.read_nullable(encoding.nullable, page, ranges, read))
    if name == "fsst":
        return (yield from read(encoding.fsst.binary, page, ranges))
    if name == "binary":
        ends, adjustment = encoding.binary.indices, int(encoding.binary.null_adjustment)
        extents = yield from encodings.read_extents(ends, page, ranges, adjustment)
        return Slots(zeros(VALIDITY, count_rows(ranges)), extents.valid)
    if name == "fixed_size_list" and not encoding.fixed_size_list.has_validity:
        return Slots(zeros(VALIDITY, count_rows(ranges)))
    if name in _NEVER_NULL:
        return Slots(zeros(VALIDITY, count_rows(ranges)))
    slots = yield from encodings.read(encoding, page, ranges)
    return Slots(without_values(slots.values, VALIDITY), slots.valid)
