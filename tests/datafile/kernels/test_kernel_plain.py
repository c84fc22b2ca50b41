"""Rows of plain pages are the same, read from a file that is open or from bytes in memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_inputs import compiled_kernel, needs_library, outcome
from point_inputs import rows_of_plain_pages
from support import examples

from lancefs.datafile.kernels import plain
from lancefs.datafile.kernels.points import PageColumn, Stored


@needs_library
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), shift=st.integers(0, 9))
def test_a_file_is_read_as_the_same_bytes_in_memory(
    tmp_path: Path, data: st.DataObject, shift: int
) -> None:
    tables, stored, _, *others = data.draw(rows_of_plain_pages())
    path = tmp_path / "pages"
    path.write_bytes(bytes(shift) + stored.tobytes())
    expected = outcome(plain.read_plain, (tables, stored, (-1, 0), *others))
    kernel, descriptor = compiled_kernel("read_plain"), os.open(path, os.O_RDONLY)
    try:
        blank = np.zeros_like(stored)  # the chunks have to come from the file
        unseen = blank if not isinstance(expected, str) else stored
        assert outcome(kernel, (tables, unseen, (descriptor, shift), *others)) == expected
    finally:
        os.close(descriptor)


def _flat_page(rows: int, per_chunk: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return the chunk table of a page of 64-bit numbers from 0 on, its chunks, and its plan."""
    table, chunks = b"", b""
    for first in range(0, rows, per_chunk):
        values = np.arange(first, min(first + per_chunk, rows)).tobytes()
        chunk = bytes(2) + len(values).to_bytes(4, "little") + bytes(2) + values
        word = (len(chunk) // 8 - 1) << 4 | per_chunk.bit_length() - 1
        table += word.to_bytes(4, "little")
        chunks += chunk
    plan = [0, rows, 0, len(table), 0, len(chunks), 4, Stored.FLAT, 64, Stored.NONE, 0, 0, 0, 0]
    assert len(plan) == len(PageColumn)
    as_bytes = np.frombuffer(table, np.uint8), np.frombuffer(chunks, np.uint8)
    return *as_bytes, plan


@pytest.mark.parametrize("per_chunk", [1024, 16 * 1024, 32 * 1024])
def test_chunks_of_any_length_are_read(tmp_path: Path, per_chunk: int) -> None:
    rows, start, stop = 100_000, 777, 98_765
    table, chunks, plan = _flat_page(rows, per_chunk)
    path = tmp_path / "page"
    path.write_bytes(chunks.tobytes())
    size = 8 * (stop - start)
    leaves = np.array([(0, 1, 0, 0, -1, size, 64)])
    descriptor = os.open(path, os.O_RDONLY)
    try:
        (memory,), numbers = compiled_kernel("read_plain")(
            *(table, chunks, (descriptor, 0), np.array([plan]), plain.ItemParts(1)),
            *(leaves, (start, stop), [size]),
        )
    finally:
        os.close(descriptor)
    assert memory.view(np.int64).tolist() == list(range(start, stop))
    assert numbers[0] == 0


def test_a_file_that_is_cut_short_is_looked_at_in_memory(tmp_path: Path) -> None:
    table, chunks, plan = _flat_page(5000, 1024)
    path = tmp_path / "page"
    path.write_bytes(chunks[: len(chunks) // 2].tobytes())
    leaves = np.array([(0, 1, 0, 0, -1, 40_000, 64)])
    descriptor = os.open(path, os.O_RDONLY)
    try:
        (memory,), _ = compiled_kernel("read_plain")(
            *(table, chunks, (descriptor, 0), np.array([plan]), plain.ItemParts(1)),
            *(leaves, (0, 5000), [40_000]),
        )
    finally:
        os.close(descriptor)
    assert memory.view(np.int64).tolist() == list(range(5000))
