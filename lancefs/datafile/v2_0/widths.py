"""What descriptions tell of the width of their values, where other encodings build on it."""

from __future__ import annotations

from lancefs.datafile.v2_0.array_page import ArrayPage
from lancefs.datafile.v2_0.registry import name_of
from lancefs.errors import CorruptFile, UnsupportedFeature
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


def has_room(encoding: ArrayEncoding, page: ArrayPage, size: int) -> bool:
    """Tell whether values that are not read are in the file.

    Args:
        encoding: Of the values, which are never null.
        page: The page.
        size: The bytes that they take at least.

    Returns:
        False where that cannot be told before they are read: they are compressed, or not flat.

    Raises:
        CorruptFile: Their buffer has fewer bytes.
        UnsupportedFeature: There may be nulls.
    """
    values = without_nulls(encoding, "values that are not read")
    scheme = values.flat.compression.scheme if values.flat.HasField("compression") else ""
    if values.WhichOneof("array_encoding") != "flat" or scheme not in ("", "none"):
        return False
    start, end = page.locate(values.flat.buffer)
    if size > end - start:
        raise CorruptFile(f"{size} bytes of values are expected, the buffer has {end - start}")
    return True
