"""The chunks of mini-block pages: where they are, and where their buffers are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

ALIGN = 8  # what buffers of a chunk are padded to, from its start


def read_table(table: Bytes, size: int, items: int, width: int) -> tuple[Ints, Ints]:
    """Read the table of the chunks of a page.

    Args:
        table: An entry for each chunk: its size and, in the low 4 bits, its number of values.
        size: Bytes of the buffer that holds the chunks, one after the other.
        items: Values of the page; the last chunk has what is left over, whatever its entry says.
        width: Bytes of an entry: 2 or 4.

    Returns:
        The values in each chunk; then where each starts, and where the last one ends.

    Raises:
        CorruptFile: The table makes no sense, or does not fit the page.
    """
    if len(table) % width or not len(table):
        raise CorruptFile(f"a chunk table of {len(table)} bytes; an entry has {width}")
    words = table.view(f"<u{width}").astype(np.int64)
    bounds = np.zeros(len(words) + 1, np.int64)
    np.cumsum(((words >> 4) + 1) * ALIGN, out=bounds[1:])
    if bounds[-1] > size:
        raise CorruptFile(f"chunks of {bounds[-1]} bytes in a buffer of {size}")
    counts = np.left_shift(1, words & 15)
    counts[-1] = items - int(counts[:-1].sum())
    if counts[-1] < 0:
        raise CorruptFile(f"the chunks hold more than the page's {items} items")
    return counts, bounds


def open_chunks(
    tables: Bytes, data: Bytes, pages: Ints, width: int, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Read the tables of all chunks of pages, and their headers.

    Args:
        tables: The tables of the pages, as `read_table` takes them, one after the other.
        data: The buffers that hold their chunks, one after the other.
        pages: For each page the bytes of its table, those of its chunks, and its values; of shape
            (pages, 3).
        width: Bytes of an entry.
        widths: As for `find_buffers`.

    Returns:
        The values in each chunk of all pages; then what `find_buffers` returns of them.

    Raises:
        CorruptFile: As those two do.
    """
    counts, starts, sizes = [], [], []
    table, begin = 0, 0
    for entries, size, items in pages.tolist():
        found, bounds = read_table(tables[table : table + entries], size, items, width)
        counts.append(found)
        starts.append(bounds[:-1] + begin)
        sizes.append(np.diff(bounds))
        table, begin = table + entries, begin + size
    headers = find_buffers(data, np.concatenate(starts), np.concatenate(sizes), widths)
    return np.concatenate(counts), *headers


def find_buffers(
    data: Bytes, starts: Ints, sizes: Ints, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """Read the headers of chunks.

    A header has the chunk's number of levels (2 bytes), then the size of each of its buffers.

    Args:
        data: The buffer that holds the chunks.
        starts: Where each chunk starts in `data`, ascending.
        sizes: The bytes of each chunk.
        widths: Bytes of the size of each buffer: 2 or 4.

    Returns:
        The number of levels of each chunk; then where each buffer starts and ends in `data`, both
        of shape (buffers, chunks).

    Raises:
        CorruptFile: A chunk is shorter than its header, or than its buffers, or not in the data.
    """
    header = 2 + sum(widths)
    if np.any(sizes < header):
        raise CorruptFile(f"a chunk is shorter than its header of {header} bytes")
    if len(starts) and np.any(starts > len(data) - sizes):
        raise CorruptFile(f"a chunk reaches beyond its buffer of {len(data)} bytes")
    heads = gather(data, starts, starts + header).reshape(len(starts), header)
    begins = np.empty((len(widths), len(starts)), np.int64)
    ends = np.empty_like(begins)
    at, position = 2, _aligned(np.full(len(starts), header, np.int64))
    for number, width in enumerate(widths):
        length = _column(heads, at, width)
        at += width
        begins[number], ends[number] = starts + position, starts + position + length
        if np.any(position + length > sizes):
            raise CorruptFile("a buffer of a chunk reaches beyond the chunk")
        position = _aligned(position + length)
    return _column(heads, 0, 2), begins, ends


def _column(heads: Bytes, at: int, width: int) -> Ints:
    return np.ascontiguousarray(heads[:, at : at + width]).view(f"<u{width}")[:, 0].astype(np.int64)


def _aligned(positions: Ints) -> Ints:
    return -(-positions // ALIGN) * ALIGN
