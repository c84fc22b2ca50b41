"""Range: equally spaced values, given by the description alone (format 2.3)."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.v2_1.encodings.registry import LARGEST
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import Range
from lancefs.storage import Bytes


def has_payload(encoding: Range) -> bool:
    return False


def decode_sequence(encoding: Range, data: Bytes, count: int) -> Ints:
    if encoding.start + encoding.step * count > LARGEST:
        raise CorruptFile(f"a range of {count} numbers from {encoding.start} by {encoding.step}")
    return int(encoding.start) + int(encoding.step) * np.arange(count, dtype=np.int64)
