"""Which file decodes which array encoding (docs: `ArrayEncoding` in `encodings_v2_0.proto`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TypeAlias, cast

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots
from lancefs.errors import UnsupportedFeature
from lancefs.proto.encodings_v2_0_pb2 import ArrayEncoding
from lancefs.storage import Steps

# Reads rows of an array, as `read` does.
Read: TypeAlias = Callable[[ArrayEncoding, ArrayPage, Sequence[RowRange]], Steps[Slots]]

# The field of `ArrayEncoding` that is set -> the module that decodes it. Lists and structs span
# several columns: `reader` puts them together.
_MODULES = {
    "flat": "flat",
    "nullable": "nullable",
    "fixed_size_list": "fixed_size_list",
    "binary": "binary",
    "dictionary": "dictionary",
    "fsst": "fsst",
    "packed_struct": "packed_struct",
    "bitpacked": "bitpacked",
    "fixed_size_binary": "fixed_size_binary",
    "bitpacked_for_non_neg": "bitpacked_for_non_neg",
    "constant": "constant",
}


def read(encoding: ArrayEncoding, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    """Read rows of an array that a page describes.

    Args:
        encoding: The description.
        page: The page.
        ranges: Rows of the array, ascending; neighbours may overlap. None is empty.

    Returns:
        The values of these rows.

    Raises:
        CorruptFile: The bytes are not what the description says.
        UnsupportedFeature: The encoding is not known, or not one of a data file 2.0.
    """
    name = name_of(encoding)
    decode = _decoder(name)
    return (yield from decode(getattr(encoding, name), page, ranges))


@cache
def _decoder(name: str) -> Callable[..., Steps[Slots]]:
    """Return what reads arrays of an encoding, imported when it is first needed."""
    if name not in _MODULES:
        raise UnsupportedFeature(f"array encoding {name} in a data file 2.0")
    module = import_module(f"lancefs.datafile.v2_0.{_MODULES[name]}")
    return cast("Callable[..., Steps[Slots]]", module.read)


def name_of(encoding: ArrayEncoding) -> str:
    """Return the name of an encoding as messages show it."""
    return encoding.WhichOneof("array_encoding") or "(unknown)"
