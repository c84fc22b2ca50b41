"""What descriptions tell of the width of their values, where other encodings build on it."""

from __future__ import annotations

from lancefs.datafile.v2_0.registry import name_of
from lancefs.errors import UnsupportedFeature
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding


def without_nulls(encoding: ArrayEncoding, where: str) -> ArrayEncoding:
    """Return the description of values that are all valid.

    Args:
        encoding: The values, perhaps with the remark that none is null.
        where: What they are part of, for messages.

    Raises:
        UnsupportedFeature: There may be nulls.
    """
    while encoding.WhichOneof("array_encoding") == "nullable":
        if encoding.nullable.WhichOneof("nullability") != "no_nulls":
            raise UnsupportedFeature(f"nulls in {where}")
        encoding = encoding.nullable.no_nulls.values
    return encoding


def flat_bits(encoding: ArrayEncoding, where: str) -> int:
    """Return the bits of a value that must be flat and never null.

    Raises:
        UnsupportedFeature: It is not.
    """
    values = without_nulls(encoding, where)
    if values.WhichOneof("array_encoding") != "flat":
        raise UnsupportedFeature(f"encoding {name_of(values)} for {where}; only flat is known")
    return int(values.flat.bits_per_value)
