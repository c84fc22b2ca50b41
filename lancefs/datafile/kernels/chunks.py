"""The chunks of mini-block pages: their tables and their headers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.kernels.calls import Call, small, twin_of
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

ALIGN = 8  # a buffer of a chunk begins at a multiple of this, counted from the start of the chunk


def read_table(table: Bytes, size: int, items: int, width: int) -> tuple[Ints, Ints]:
    """Read the table of the chunks of a page.

    Args:
        table: One entry per chunk: its size and, in the low 4 bits, its number of values.
        size: Size in bytes of the buffer that holds the chunks back to back.
        items: Number of values in the page. The last chunk has the values that the other chunks
            leave, whatever its entry says.
        width: Bytes of an entry: 2 or 4.

    Returns:
        The number of values in each chunk; and the offset of each chunk, then of the end of the
        last one.

    Raises:
        CorruptFile: The table is malformed or does not fit the page.
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
    """Read the tables of all chunks of pages, and the headers of the chunks.

    Args:
        tables: The tables of the pages, as for `read_table`, back to back.
        data: The buffers that hold the chunks of the pages, back to back.
        pages: Size of the table, size of the chunks and number of values of each page; shape
            (pages, 3), sizes in bytes.
        width: Bytes of an entry of a table: 2 or 4.
        widths: As for `find_buffers`.

    Returns:
        The number of values in each chunk of all pages; then the results of `find_buffers`.

    Raises:
        CorruptFile: As for `read_table` and `find_buffers`.
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


@twin_of(open_chunks, "bytes number number bytes number ints number ints number out")
def _compiled_open_chunks(
    call: Call, tables: Bytes, data: Bytes, pages: Ints, width: int, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints, Ints]:
    sizes, buffers = small(tuple(widths)), len(widths)
    out = np.empty((2 * buffers + 2, len(tables) // width), np.int64)
    page_count = len(pages)
    call(tables, len(tables), width, data, len(data), pages, page_count, sizes, buffers, out)
    return out[0], out[1], out[2 : buffers + 2], out[buffers + 2 :]


def find_buffers(
    data: Bytes, starts: Ints, sizes: Ints, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """Read the headers of chunks.

    A header has the number of levels of the chunk (2 bytes), then the size of each of its buffers.

    Args:
        data: The buffer that holds the chunks.
        starts: Offset of each chunk in `data`, ascending.
        sizes: Size in bytes of each chunk.
        widths: Bytes of the size of each buffer: 2 or 4.

    Returns:
        The number of levels of each chunk; then the start and the end of each buffer in `data`,
        both of shape (buffers, chunks).

    Raises:
        CorruptFile: A chunk is shorter than its header or its buffers, or not in the data.
    """
    header = 2 + sum(widths)
    if np.any(sizes < header):
        raise CorruptFile(f"a chunk is shorter than its header of {header} bytes")
    if len(starts) and np.any(starts > len(data) - sizes):
        raise CorruptFile(f"a chunk reaches beyond its buffer of {len(data)} bytes")
    heads = gather(data, starts, starts + header).reshape(len(starts), header)
    begins = np.empty((len(widths), len(starts)), np.int64)
    ends = np.empty_like(begins)
    at, position = 2, _align(np.full(len(starts), header, np.int64))
    for number, width in enumerate(widths):
        length = _column(heads, at, width)
        at += width
        begins[number], ends[number] = starts + position, starts + position + length
        if np.any(position + length > sizes):
            raise CorruptFile("a buffer of a chunk reaches beyond the chunk")
        position = _align(position + length)
    return _column(heads, 0, 2), begins, ends


@twin_of(find_buffers, "bytes number ints ints number ints number out")
def _compiled_find_buffers(
    call: Call, data: Bytes, starts: Ints, sizes: Ints, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    chunks, buffers = len(starts), len(widths)
    out = np.empty((2 * buffers + 1, chunks), np.int64)
    call(data, len(data), starts, sizes, chunks, small(tuple(widths)), buffers, out)
    return out[0], out[1 : buffers + 1], out[buffers + 1 :]


def _column(heads: Bytes, at: int, width: int) -> Ints:
    return np.ascontiguousarray(heads[:, at : at + width]).view(f"<u{width}")[:, 0].astype(np.int64)


def _align(positions: Ints) -> Ints:
    return -(-positions // ALIGN) * ALIGN
