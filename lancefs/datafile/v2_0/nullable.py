"""Nullable: values, and a bit each that tells whether they are valid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import Constant, FixedWidth, Mask, RowRange
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_0_pb2 import Nullable
from lancefs.storage import Steps, together


def read(
    encoding: Nullable,
    page: ArrayPage,
    ranges: Sequence[RowRange],
    read_values: registry.Read = registry.read,
) -> Steps[Slots]:
    match encoding.WhichOneof("nullability"):
        case "no_nulls":
            return (yield from read_values(encoding.no_nulls.values, page, ranges))
        case "all_nulls":
            return Slots(Constant(None, count_rows(ranges)))
        case "some_nulls":
            parts = [
                registry.read(encoding.some_nulls.validity, page, ranges),
                read_values(encoding.some_nulls.values, page, ranges),
            ]
            validity, values = yield from together(parts)
            return Slots(values.values, _mask(validity, values.valid))
        case _:
            raise UnsupportedFeature("a kind of nullability that this release does not know")


def _mask(validity: Slots, inner: Mask | None) -> Mask:
    """Turn validity bits into a mask, and add the nulls that the values tell of themselves."""
    bits = validity.values
    if not isinstance(bits, FixedWidth) or bits.bits != 1 or validity.valid is not None:
        raise CorruptFile("the validity of values is not a bit each")
    mask: Mask = bits.values.view(np.bool_)
    return mask if inner is None else mask & inner
