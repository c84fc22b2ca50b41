"""Byte ranges of files on any fsspec filesystem. No other package of lancefs reads files."""

from lancefs.storage.byte_ranges import ByteRange, Bytes
from lancefs.storage.store import TAIL, File, Steps, Store, forget, read_all, run, together

__all__ = [
    "TAIL",
    "ByteRange",
    "Bytes",
    "File",
    "Steps",
    "Store",
    "forget",
    "read_all",
    "run",
    "together",
]
