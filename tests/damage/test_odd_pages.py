"""Pages without rows, whose numbers are at odds, or that change, in both kinds of kernels."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from files_v2 import PageOf

from damage.forged_pages import (
    ITEM,
    NUMBER,
    TEXT,
    chunk,
    flat_of,
    mini_block,
    repeat_file,
    strings,
    table_of,
    values_page,
    write_table,
)
from damage.processes import KERNELS, run_python
from lancefs.proto import encodings_v2_1_pb2 as pb

READS = {
    "to_table": "dataset.to_table()",
    "batches": "pa.Table.from_batches(dataset.to_batches(batch_size=300))",
    "take": "dataset.take(list(range(0, dataset.count_rows(), 3)))",
    "take_few": "dataset.take([0, 3])",
    "filtered": "dataset.to_table(filter='a IS NOT NULL')",
}
_READER = """
import json, sys
import pyarrow as pa
import lancefs
def outcome(path, read):
    dataset = lancefs.open(path)
    try:
        found = eval(read)
        found.validate(full=True)
        return found["a"].to_pylist()
    except lancefs.LanceError as error:
        return f"{type(error).__name__}: {error}"
for path in sys.argv[2:]:
    reads = json.loads(sys.argv[1]).items()
    print(json.dumps({name: outcome(path, read) for name, read in reads}))
"""


def outcomes(kernels: str, *paths: Path) -> list[dict[str, list[object] | str]]:
    """The rows of each of `READS` of tables, or the error."""
    said = run_python(kernels, "-c", _READER, json.dumps(READS), *map(str, paths))
    return [json.loads(line) for line in said]


def numbers_page(rows: int) -> PageOf:
    return values_page(rows, flat_of(64), np.arange(rows, dtype="<i8").tobytes())


def texts_page(rows: int) -> PageOf:
    """A page of the strings "0", "1" and so on."""
    texts = [str(row).encode() for row in range(rows)]
    ends = 8 * (rows + 1) + np.cumsum([0, *map(len, texts)])
    return values_page(rows, strings(), ends.astype("<u8").tobytes() + b"".join(texts))


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    ("column", "page_of", "value_of"), [(NUMBER, numbers_page, int), (TEXT, texts_page, str)]
)
def test_pages_without_rows_hold_nothing(
    tmp_path: Path,
    column: pa.Array,
    page_of: Callable[[int], PageOf],
    value_of: Callable[[int], object],
    kernels: str,
) -> None:
    pages = [(4, 0, 4), (400, 0, 400), (0, 5, 0, 0, 700, 0)]
    paths = [tmp_path / f"{number}.lance" for number in range(len(pages))]
    for path, sizes in zip(paths, pages, strict=True):
        write_table(path, column, [page_of(size) for size in sizes], sum(sizes))
    for found, sizes in zip(outcomes(kernels, *paths), pages, strict=True):
        rows = [value_of(row) for size in sizes for row in range(size)]
        assert found == {
            "to_table": rows,
            "batches": rows,
            "take": rows[::3],
            "take_few": [rows[0], rows[3]],
            "filtered": rows,
        }, sizes


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_dictionary_has_no_more_items_than_a_page(tmp_path: Path, kernels: str) -> None:
    layout = pb.MiniBlockLayout(
        value_compression=pb.CompressiveEncoding(
            inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=8)
        ),
        dictionary=pb.CompressiveEncoding(variable=pb.Variable(offsets=flat_of(32))),
        num_dictionary_items=2**63,
        layers=[ITEM],
        num_buffers=1,
        num_items=8,
    )
    chunks = [chunk(0, [(4, b"\0")])]
    items = struct.pack("<III", 32, 12, 0) + bytes(64)
    page = PageOf(8, mini_block(layout), [table_of(chunks), chunks[0], items])
    write_table(tmp_path / "t.lance", TEXT, [page], 8)
    (found,) = outcomes(kernels, tmp_path / "t.lance")
    for name, outcome in found.items():
        assert isinstance(outcome, str), name
        assert outcome.startswith("CorruptFile: "), (name, outcome)
        assert "a, column 0 (a), page 0: a dictionary of 9223372036854775808 items" in outcome


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("files", [1, 2])
def test_a_column_without_rows_is_refused(tmp_path: Path, files: int, kernels: str) -> None:
    write_table(tmp_path / "t.lance", TEXT, [texts_page(0)], 4)
    repeat_file(tmp_path / "t.lance", files)
    (found,) = outcomes(kernels, tmp_path / "t.lance")
    for name, outcome in found.items():
        assert isinstance(outcome, str), name
        assert outcome.startswith("CorruptFile: "), (name, outcome)
        assert "a, column 0 (a)" in outcome, name
        assert "the column has 0 rows" in outcome, name


_RACE = """
import mmap, sys, threading, time
from collections import Counter
from pathlib import Path
import numpy as np
import lancefs
(file,) = (Path(sys.argv[1]) / "data").iterdir()
with file.open("r+b") as opened:
    memory = mmap.mmap(opened.fileno(), 0)
at, is_over, outcomes = memory.find(bytes.fromhex(sys.argv[2])), False, Counter()
assert at > 0
some = np.frombuffer(memory, "<u8", 1 << 15, at)[::1024]  # one of each block
good = some.copy()


def flip():
    while not is_over:
        some[:] = 1 << 40
        some[:] = good


flipping = threading.Thread(target=flip)
flipping.start()
end = time.monotonic() + 4
try:
    while time.monotonic() < end:
        try:
            batch = next(iter(lancefs.open(sys.argv[1]).to_batches(batch_size=1 << 14)))
            batch.validate(full=True)
            outcomes["rows"] += 1
        except lancefs.LanceError as error:
            outcomes[type(error).__name__] += 1
finally:
    is_over = True
    flipping.join()
assert outcomes["rows"], outcomes
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_zipped", [True, False])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_file_may_be_rewritten_in_place_while_it_is_read(
    tmp_path: Path, kernels: str, is_zipped: bool
) -> None:
    path, rows, text = tmp_path / "t.lance", 1 << 16, b"x" * 40
    if is_zipped:
        ends = np.arange(rows + 1, dtype="<u8") * (4 + len(text))
        layout = pb.FullZipLayout(
            bits_per_offset=32,
            num_items=rows,
            num_visible_items=rows,
            value_compression=pb.CompressiveEncoding(variable=pb.Variable(offsets=flat_of(32))),
            layers=[ITEM],
        )
        data = (struct.pack("<I", len(text)) + text) * rows
        page = PageOf(rows, pb.PageLayout(full_zip_layout=layout), [data, ends.tobytes()])
    else:
        ends = 8 * (rows + 1) + np.arange(rows + 1, dtype="<u8") * len(text)
        page = values_page(rows, strings(), ends.tobytes() + text * rows)
    write_table(path, TEXT, [page], rows)
    place = ends[500:502].tobytes()  # to find it by
    run_python(kernels, "-W", "ignore", "-c", _RACE, str(path), place.hex())
