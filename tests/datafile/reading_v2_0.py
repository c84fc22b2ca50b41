"""Reading pages of format 2.0, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from files_v2 import (
    ColumnOf,
    PageOf,
    write_file,
)
from outlining import assert_tells

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.container import Container
from lancefs.datafile.fields import Field
from lancefs.datafile.outlines import outline_of
from lancefs.datafile.v2_0.reader import ArrayReader
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import ByteRange, run


def read(
    container: Container,
    what: Field,
    ranges: Sequence[RowRange],
    columns: dict[int, int] | None = None,
) -> pa.Array:
    """Read a field; without `columns`, its id and those below it are the columns.

    Its outline must tell the same.
    """
    ids = {part.id: part.id for part in what.walk()}
    reader = ArrayReader(container, ids if columns is None else columns)
    (array,) = run([(container.file, reader.read(what, ranges))])
    array.validate(full=True)
    assert array.type == what.storage_type
    outline = outline_of(what)
    # In tables, metadata tell which structs are packed, so that none of them has an outline.
    is_packed = not ids.keys() <= reader.columns.keys()
    if outline is not None and not is_packed:
        reader = ArrayReader(container, reader.columns)  # which has read nothing yet
        (told,) = run([(container.file, reader.read(outline, ranges))])
        assert_tells(told, array)
    return array


def read_page(
    tmp_path: Path, logical_type: str, encoding: pb.ArrayEncoding, *buffers: bytes, rows: int
) -> list[Any]:
    """Write a page, read all of it, and check that each range of it gives the same rows."""
    container = write_file(tmp_path / "t.lance", [ColumnOf([PageOf(rows, encoding, buffers)])])
    what = Field(0, "c", logical_type)
    whole: list[Any] = read(container, what, [(0, rows)]).to_pylist()
    for start in range(rows):
        for end in range(start + 1, rows + 1):
            assert read(container, what, [(start, end)]).to_pylist() == whole[start:end]
    every_second = [(row, row + 1) for row in range(0, rows, 2)]
    assert read(container, what, every_second).to_pylist() == whole[::2]
    assert read(container, what, []).to_pylist() == []
    return whole


def bytes_asked(container: Container, what: Field, ranges: Sequence[RowRange]) -> list[ByteRange]:
    """Read rows, and return the byte ranges that were asked for."""
    reader = ArrayReader(container, {part.id: part.id for part in what.walk()})
    container.load_columns(range(len(container.footer.columns)))
    steps, asked = reader.read(what, ranges), []
    try:
        wanted = next(steps)
        while True:
            asked += [byte_range for byte_range in wanted if byte_range[0] < byte_range[1]]
            wanted = steps.send(container.file.read(wanted))
    except StopIteration:
        return asked
