"""Buffers compressed as a whole; the format of their bytes is that of later data files."""

from __future__ import annotations

from lancefs.datafile.v2_1.encodings import general
from lancefs.errors import UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import (
    COMPRESSION_ALGORITHM_LZ4,
    COMPRESSION_ALGORITHM_ZSTD,
)
from lancefs.storage import Bytes

_SCHEMES = {"lz4": COMPRESSION_ALGORITHM_LZ4, "zstd": COMPRESSION_ALGORITHM_ZSTD}


def decompress(scheme: str, data: Bytes) -> Bytes:
    """Decompress a buffer.

    Args:
        scheme: As the description of the page spells it.
        data: The compressed bytes.

    Raises:
        CorruptFile: The bytes do not decompress.
        UnsupportedFeature: The scheme is not known.
    """
    if scheme not in _SCHEMES:
        raise UnsupportedFeature(f"buffers compressed with {scheme!r}")
    return general.decompress(_SCHEMES[scheme], data)
