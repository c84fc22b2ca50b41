"""Views of many small fragments: read together, with the bytes that each gives alone."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from leaks import forget_views

import lancefs
from lancefs.datafile.buffers import Ints
from lancefs.errors import CorruptFile, LanceError
from lancefs.filesystem import LanceFileSystem
from lancefs.storage import Bytes
from lancefs.table import fragment_readers
from lancefs.table.fragment_reader import FragmentReader
from lancefs.views.arrow import lazy_file, small_batches
from lancefs.views.arrow.arrow_layout import Layout
from lancefs.views.arrow.measures import Measures
from lancefs.views.file_objects import ViewFile
from lancefs.views.view_batches import Batches

PATH = "latest.arrow"
FRAGMENTS = 9


def some_rows(number: int) -> pa.Table:
    source = np.random.default_rng(number)
    rows = 150 + 40 * number
    numbers = source.integers(0, 1000, rows)
    missing = source.random(rows) < 0.15 * (number % 3)
    words = [f"wörd {one}" * int(one % 3) for one in numbers]
    return pa.table(
        {
            "number": pa.array(numbers),
            "share": pa.array(source.random(rows), mask=missing),
            "flag": pa.array(numbers % 2 == 0, mask=missing),
            "word": pa.array(words, mask=missing),
            "kind": pa.array([f"kind {one % 3}" for one in numbers]),
            "raw": pa.array([source.bytes(int(one % 4)) for one in numbers], pa.large_binary()),
            "list": pa.array([[int(one)] * int(one % 3) for one in numbers]),
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.2"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, the same with deletions, and the same with a new column."""
    folder = tmp_path_factory.mktemp("small")
    for number in range(FRAGMENTS):
        mode = "append" if number else "create"
        options = {"mode": mode, "data_storage_version": request.param}
        lance.write_dataset(some_rows(number), folder / "whole", **options)
    for name in ("deleted", "evolved"):
        shutil.copytree(folder / "whole", folder / name)
    lance.dataset(folder / "deleted").delete("number % 7 = 3")
    lance.dataset(folder / "evolved").add_columns(pa.schema([pa.field("new", pa.string())]))
    return folder


@pytest.fixture
def table(written: Path, tmp_path: Path) -> Path:
    """A copy of the table, with files as new as if they were just written."""
    return Path(shutil.copytree(written / "whole", tmp_path / "t.lance", copy_function=shutil.copy))


@pytest.fixture(params=["whole", "deleted", "evolved"])
def changed(request: pytest.FixtureRequest, written: Path, tmp_path: Path) -> Path:
    """A copy of one of the tables."""
    source = written / request.param
    return Path(shutil.copytree(source, tmp_path / "t.lance", copy_function=shutil.copy))


@pytest.fixture(params=["few", "many"], autouse=True)
def fragments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a version with many fragments, no reader is made for each."""
    if request.param == "many":
        monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)


def test_the_view_has_the_rows_of_the_table(changed: Path) -> None:
    with LanceFileSystem(fo=str(changed)).open(PATH) as file:
        got = pa.ipc.open_file(file).read_all()
    assert_same_table(got, lancefs.open(changed).to_table())


def test_batches_are_read_in_any_order(changed: Path) -> None:
    expected = lancefs.open(changed).to_table().combine_chunks().to_batches()[0]
    with LanceFileSystem(fo=str(changed)).open(PATH) as file:
        reader = pa.ipc.open_file(file)
        order = [0, 5, 6, 2, 3, 4, 8, 7, 1]
        batches = {number: reader.get_batch(number) for number in order}
    got = pa.Table.from_batches([batches[number] for number in range(FRAGMENTS)])
    assert_same_table(got, pa.Table.from_batches([expected]))


def test_some_columns_are_read(changed: Path) -> None:
    names = ["word", "share"]
    with LanceFileSystem(fo=str(changed)).open(PATH) as file:
        got = pa.ipc.open_file(
            file, options=pa.ipc.IpcReadOptions(included_fields=[3, 1])
        ).read_all()
    assert_same_table(got.select(names), lancefs.open(changed).to_table(columns=names))


@pytest.mark.parametrize("size", [700, 20_000, 1 << 30])
def test_blocks_have_the_bytes_of_fragments_that_are_read_alone(
    changed: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied() -> bytes:
        forget_views()
        target = io.BytesIO()
        with LanceFileSystem(fo=str(changed), skip_instance_cache=True).open(PATH) as file:
            while block := file.read(size):
                target.write(block)
        return target.getvalue()

    together = copied()
    monkeypatch.setattr(Measures, "small_group", lambda _, batch: [batch])
    monkeypatch.setattr(Batches, "plain_run", lambda *_: None)
    monkeypatch.setattr(Measures, "_are_small", lambda *_: False)
    assert copied() == together
    assert LanceFileSystem(fo=str(changed)).info(PATH)["size"] == len(together)


class Recorder:
    """A file that keeps what pyarrow reads of it, in which it asks for messages and bodies."""

    closed = False

    def __init__(self, file: ViewFile) -> None:
        self.file = file
        self.parts: list[bytes] = []

    def read(self, size: int) -> bytes:
        self.parts.append(bytes(self.file.read(size)))
        return self.parts[-1]

    def seek(self, *where: int) -> int:
        return int(self.file.seek(*where))

    def tell(self) -> int:
        return int(self.file.tell())

    def close(self) -> None:
        self.file.close()


@pytest.mark.parametrize("names", ["number,share,flag,word,kind,raw", "flag", "word", "word,list"])
def test_batches_that_are_encoded_together_have_the_bytes_of_single_ones(
    changed: Path, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> tuple[pa.Table, list[bytes]]:
        forget_views()
        fs = LanceFileSystem(fo=str(changed), skip_instance_cache=True)
        with fs.open(f"latest/columns/{names}.arrow") as file:
            recorder = Recorder(file)
            table = pa.ipc.open_file(pa.PythonFile(recorder, "r")).read_all()
        return table, recorder.parts

    rows, together = read()
    assert_same_table(rows, lancefs.open(changed).to_table(columns=names.split(",")))
    monkeypatch.setattr(Measures, "small_group", lambda _, batch: [batch])
    monkeypatch.setattr(Measures, "_are_small", lambda *_: False)
    monkeypatch.setattr(Batches, "plain_run", lambda *_: None)
    monkeypatch.setattr(lazy_file, "encode_batches", None)
    assert read() == (rows, together)


def test_batches_are_encoded_together_once_however_much_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragments, path = 30, "latest/columns/number,word.arrow"
    rows = pa.concat_tables([some_rows(number) for number in range(fragments)])
    size = -(-len(rows) // fragments)
    lance.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=size)
    encoded: list[int] = []

    def encode_batches(arrays: list[pa.Array], layout: Layout, first: int, nulls: Ints) -> Bytes:
        encoded.extend(range(first, first + len(nulls)))
        return small_batches.encode_batches(arrays, layout, first, nulls)

    monkeypatch.setattr(lazy_file, "encode_batches", encode_batches)
    expected = LanceFileSystem(fo=str(tmp_path / "t.lance"), skip_instance_cache=True).cat_file(
        path
    )
    assert encoded == list(range(fragments))
    forget_views()
    encoded.clear()
    with LanceFileSystem(fo=str(tmp_path / "t.lance"), skip_instance_cache=True).open(path) as file:
        assert b"".join(iter(lambda: file.read(100_000), b"")) == expected
    assert encoded == list(range(fragments))


def test_a_damaged_file_is_named(table: Path) -> None:
    path = table / "data" / lance.dataset(table).get_fragments()[4].data_files()[0].path
    data = bytearray(path.read_bytes())
    half = len(data) // 2  # numbers alone may be any bytes, offsets may not
    data[:half] = b"\xff" * half
    path.write_bytes(data)
    with (
        pytest.raises(CorruptFile, match=path.name),
        LanceFileSystem(fo=str(table)).open(PATH) as file,
    ):
        pa.ipc.open_file(file).read_all()


NAMES = ["number", "share", "flag", "word", "raw"]


def size_of_names(table: Path) -> int:
    """Return the size of the view of the columns that kernels read of many files at once."""
    forget_views()
    view = f"latest/columns/{','.join(NAMES)}.arrow"
    return int(LanceFileSystem(fo=str(table), skip_instance_cache=True).info(view)["size"])


@pytest.mark.parametrize("filter", [None, "number % 97 = 3"])
def test_the_size_of_many_fragments_needs_no_reader_of_each(
    table: Path, filter: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if filter is not None:
        lance.dataset(table).delete(filter)
    expected = size_of_names(table)
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)
    made = []
    init = FragmentReader.__init__

    def counted(self: FragmentReader, *arguments: object) -> None:
        made.append(self)
        init(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FragmentReader, "__init__", counted)
    assert size_of_names(table) == expected
    changed = sum(
        len(one.deletion_file() or "") > 0 for one in lance.dataset(table).get_fragments()
    )
    assert len(made) <= changed + 1  # the first one tells where the table is


@pytest.mark.parametrize("damage", ["cut", "gone", "garbage", "link"])
def test_a_file_that_is_not_as_expected_is_read_as_any_other(table: Path, damage: str) -> None:
    path = table / "data" / lance.dataset(table).get_fragments()[4].data_files()[0].path
    expected, data = size_of_names(table), path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[:-50])
    if damage in ("gone", "link"):
        path.unlink()
    if damage == "garbage":
        path.write_bytes(data[:-200] + b"\xff" * 160 + data[-40:])
    if damage == "link":
        (elsewhere := path.parent / "other").write_bytes(data)
        path.symlink_to(elsewhere)
        assert size_of_names(table) == expected
        return
    with pytest.raises(LanceError, match=path.name):
        size_of_names(table)


def test_a_reader_of_one_column_measures_small_fragments_together(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[int]] = []
    require = Measures.require_all

    def noted(self: Measures, batches: Iterable[int]) -> None:
        asked.append(list(batches))
        require(self, asked[-1])

    monkeypatch.setattr(Measures, "require_all", noted)
    options = pa.ipc.IpcReadOptions(included_fields=[1])
    with LanceFileSystem(str(table), skip_instance_cache=True).open(PATH) as file:
        reader = pa.ipc.open_file(file, options=options)
        got = pa.Table.from_batches([reader.get_batch(at) for at in range(FRAGMENTS)])
    assert_same_table(got.select(["share"]), lancefs.open(table).to_table(columns=["share"]))
    assert asked == [list(range(FRAGMENTS))]


def test_messages_that_are_made_together_are_those_made_alone(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = LanceFileSystem(str(table), skip_instance_cache=True)
    with fs.open(PATH) as file:
        whole = file.read()
    made: list[int] = []
    together = Layout.batch_messages

    def noted(self: Layout, batches: range, counts: Ints) -> Bytes:
        made.append(len(batches))
        return together(self, batches, counts)

    monkeypatch.setattr(Layout, "batch_messages", noted)
    with LanceFileSystem(str(table), skip_instance_cache=True).open(PATH) as file:
        layout = file._view._content().layout
        for number in [4, 1, 7, 0, 8, 8, 3, 2, 6, 5]:
            start = int(layout.starts[number])
            file.seek(start)
            assert file.read(layout.message) == whole[start : start + layout.message]
            bounds = layout.column_bounds(number)
            file.seek(bounds[1])
            assert file.read(bounds[2] - bounds[1]) == whole[bounds[1] : bounds[2]]
    assert made == [FRAGMENTS]


@pytest.mark.parametrize("data_type", [pa.binary(), pa.string(), pa.large_binary()])
def test_bytes_that_lie_under_nulls_are_not_in_the_view(
    data_type: pa.DataType, tmp_path: Path
) -> None:
    rows = 100  # data files 2.0 keep these bytes
    valid = pa.py_buffer(np.packbits(np.arange(rows) % 3 != 0, bitorder="little"))
    wide = data_type == pa.large_binary()
    ends = pa.py_buffer((np.arange(rows + 1) * 6).astype(np.int64 if wide else np.int32))
    text = pa.py_buffer("".join(f"{number:06}" for number in range(rows)).encode())
    texts = pa.Array.from_buffers(data_type, rows, [valid, ends, text])
    whole = pa.concat_tables([pa.table({"text": texts})] * FRAGMENTS)
    path = tmp_path / "t.lance"
    lance.write_dataset(whole, path, max_rows_per_file=rows, data_storage_version="2.0")
    with LanceFileSystem(fo=str(path)).open(PATH) as file:
        got = pa.ipc.open_file(file).read_all()
    got.validate(full=True)
    assert_same_table(got, whole)
