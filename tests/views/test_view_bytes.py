"""The bytes of `.arrow` views: the rows of the dataset, the exact size, always the same."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from leaks import forget_views
from support import REPOSITORY, CorpusRef, corpus_refs, of_each, rewrite_manifest

import lancefs
from lancefs.errors import UnsupportedFeature
from lancefs.filesystem import LanceFileSystem
from lancefs.proto import table_pb2
from lancefs.views.arrow.bodies import encode
from lancefs.views.arrow.lazy_file import LazyFile
from lancefs.views.arrow.shapes import measure, shape_of, walk
from lancefs.views.view import WholeView

PATH = "versions/2.arrow"
REFS = [ref for ref in corpus_refs() if ref.expected()]


def path_of(ref: CorpusRef) -> str:
    name = f"tags/{ref.ref.tag}" if ref.ref.tag else f"versions/{ref.ref.version}"
    return f"branches/{ref.ref.branch}/{name}.arrow" if ref.ref.branch else f"{name}.arrow"


@of_each(REFS)
def test_every_view_of_the_corpus_has_the_rows_expected(ref: CorpusRef) -> None:
    path = ref.expected()
    assert path is not None
    fs = LanceFileSystem(fo=ref.case.table())
    size = fs.info(path_of(ref))["size"]
    with fs.open(path_of(ref)) as file:
        data = file.read()
        assert isinstance(file._view, LazyFile)
    assert len(data) == size
    shown = pa.ipc.open_file(data).read_all()
    shown.validate(full=True)
    with pa.memory_map(str(path)) as file:
        assert_same_table(shown, pa.ipc.open_file(file).read_all())


def test_any_range_is_a_part_of_the_whole(wide: str) -> None:
    fs = LanceFileSystem(fo=wide)
    whole = fs.cat(PATH)
    rng = np.random.default_rng(1)
    starts = rng.integers(0, len(whole), 60)
    starts[:20] = len(whole) - rng.integers(0, 5000, 20)
    starts[20:40] = rng.integers(0, 20_000, 20)
    for start, length in zip(starts.tolist(), rng.integers(0, 300_000, 60).tolist(), strict=True):
        assert fs.cat_file(PATH, start, start + length) == whole[start : start + length]


def test_buffers_of_a_mapped_file_are_aligned(wide: str, tmp_path: Path) -> None:
    (tmp_path / "copy.arrow").write_bytes(LanceFileSystem(fo=wide).cat(PATH))
    with pa.memory_map(str(tmp_path / "copy.arrow")) as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            for column in reader.get_batch(number).columns:
                found = [buffer for buffer in column.buffers() if buffer is not None]
                assert all(buffer.address % 64 == 0 for buffer in found)
        del reader


def test_the_bytes_are_the_same_in_every_process_and_with_every_kernel(wide: str) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from lancefs.filesystem import LanceFileSystem\n"
        "import hashlib\n"
        "fs = LanceFileSystem(fo=sys.argv[2])\n"
        "fs.cat_file(sys.argv[3], -2_000_000)\n"
        "print(hashlib.sha256(fs.cat(sys.argv[3])).hexdigest())\n"
    )
    arguments = [sys.executable, "-c", program, str(REPOSITORY), wide, PATH]
    for kernels in ({}, {"LANCEFS_KERNELS": "numpy"}):
        done = subprocess.run(
            arguments, capture_output=True, text=True, check=True, env=os.environ | kernels
        )
        digest = hashlib.sha256(LanceFileSystem(fo=wide).cat(PATH)).hexdigest()
        assert done.stdout.strip() == digest


def test_batches_are_the_same_in_all_views_of_a_fragment(wide: str) -> None:
    fs = LanceFileSystem(fo=wide)
    sizes = []
    for path in (PATH, "versions/2/columns/text.arrow"):
        file = pa.ipc.open_file(fs.cat(path))
        sizes.append([file.get_batch(i).num_rows for i in range(file.num_record_batches)])
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 3
    assert sum(sizes[0]) == lancefs.open(wide).count_rows()


VALUES = {
    "numbers": pa.array([1, None, 3] * 5, pa.int16()),
    "bits": pa.array([True, None, False] * 5),
    "text": pa.array(["a", None, "ccc"] * 5),
    "large": pa.array([b"a", None, b"ccc"] * 5, pa.large_binary()),
    "fixed": pa.array([b"ab", None, b"cd"] * 5, pa.binary(2)),
    "decimal": pa.array([1, None, 3] * 5, pa.decimal128(5)),
    "list": pa.array([[1, None], None, [], [3]] * 5),
    "list of text": pa.array([["a", None], None, [], ["ccc"]] * 5),
    "fixed list": pa.array([[1, 2], None, [3, None]] * 5, pa.list_(pa.int8(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}] * 5),
    "map": pa.array([[("k", 1)], None, [], [("l", None), ("m", 2)]] * 5, pa.map_("string", "int8")),
    "nothing": pa.nulls(15),
}


@pytest.mark.parametrize("name", VALUES)
def test_equal_arrays_have_equal_bytes(name: str) -> None:
    values = VALUES[name]
    shape = shape_of(values.type)
    assert shape is not None
    for start in (0, 1, 7):
        part = values.slice(start, 6)
        fresh = pa.array(part.to_pylist(), values.type)
        assert encode(part, shape).tobytes() == encode(fresh, shape).tobytes()
        assert (
            measure(list(walk(part)), shape).tolist() == measure(list(walk(fresh)), shape).tolist()
        )


def test_values_under_nulls_are_not_written() -> None:
    validity = pa.py_buffer(bytes([0b101]))
    numbers = pa.py_buffer(np.array([1, 99, 3], np.int32))
    found = pa.Array.from_buffers(pa.int32(), 3, [validity, numbers])
    offsets, text = pa.py_buffer(np.array([0, 1, 4, 5], np.int32)), pa.py_buffer(b"ajunkc")
    strings = pa.Array.from_buffers(pa.string(), 3, [validity, offsets, text])
    items = pa.array([1, 7, 7, 7, 3])
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [validity, offsets], children=[items])
    for array in (found, strings, lists):
        shape = shape_of(array.type)
        assert shape is not None
        fresh = pa.array(array.to_pylist(), array.type)
        assert encode(array, shape).tobytes() == encode(fresh, shape).tobytes()


def test_dictionaries_are_unified_and_stay_dictionaries(tmp_path: Path) -> None:
    path = str(tmp_path / "d.lance")
    for start in (0, 1000):
        values = [f"v{(start + i * i) % 1500}" if i % 9 else None for i in range(1000)]
        numbers = pa.array(range(start, start + 1000))
        table = pa.table({"d": pa.array(values).dictionary_encode(), "n": numbers})
        lance.write_dataset(table, path, mode="append" if start else "create")
    fs = LanceFileSystem(fo=path)
    whole = fs.cat("latest.arrow")
    assert_same_table(pa.ipc.open_file(whole).read_all(), lancefs.open(path).to_table())
    forget_views()
    assert fs.cat("latest.arrow") == whole


def test_more_dictionary_values_than_the_index_type_can_count(tmp_path: Path) -> None:
    path = str(tmp_path / "d.lance")
    data_type = pa.dictionary(pa.int8(), pa.string())
    for start in (0, 100):
        values = pa.array([f"v{start + i}" for i in range(100)]).dictionary_encode()
        table = pa.table({"d": values.cast(data_type)})
        lance.write_dataset(table, path, mode="append" if start else "create")
    fs = LanceFileSystem(fo=path)
    with pytest.raises(UnsupportedFeature, match=r"d: the dictionaries .* \.arrows"):
        fs.info("latest.arrow")
    assert pa.ipc.open_file(fs.cat("latest/fragments/1.arrow")).read_all().num_rows == 100


@pytest.mark.parametrize("name", ["versions/{}.arrow", "versions/{}/columns/_rowid,d.arrow"])
@pytest.mark.parametrize("fragments", [1, 3])
def test_dictionaries_of_half_floats_keep_their_values(
    tmp_path: Path, fragments: int, name: str
) -> None:
    path = str(tmp_path / "d.lance")
    values = np.array([0.5, -0.0, 6e-8, np.inf, 65504, 0.0], np.float16)
    for part in range(fragments):
        items = pa.array(np.roll(values, part)[part:])
        d = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0], pa.int8()), items)
        mode = "append" if part else "create"
        lance.write_dataset(pa.table({"d": d}), path, mode=mode)
    expected = lance.dataset(path).to_table()["d"].to_pylist()
    shown = pa.ipc.open_file(LanceFileSystem(fo=path).cat(name.format(fragments))).read_all()
    assert list(map(repr, shown["d"].to_pylist())) == list(map(repr, expected))


def test_nested_dictionaries_of_half_floats_are_an_error_or_right(tmp_path: Path) -> None:
    path = str(tmp_path / "d.lance")
    for number in (0.5, 2.0):
        items = pa.array(np.array([number], np.float16))
        d = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), items)
        nested = pa.StructArray.from_arrays([d], ["d"])
        mode = "append" if number == 2.0 else "create"
        lance.write_dataset(pa.table({"s": nested}), path, mode=mode)
    fs = LanceFileSystem(fo=path)
    with pytest.raises(UnsupportedFeature, match=r"half floats.* \.arrows"):
        fs.cat("latest.arrow")
    part = pa.ipc.open_file(fs.cat("latest/fragments/1.arrow")).read_all()
    assert part["s"].to_pylist() == [{"d": 2.0}] * 2


@pytest.mark.parametrize("name", ["latest.arrow", "versions/1/columns/_rowid,d.arrow"])
def test_dictionaries_that_arrow_does_not_unify_are_an_error_and_a_stream(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "d.lance"
    table = pa.table({"d": pa.nulls(20), "n": range(20)})
    lance.write_dataset(table, str(path), max_rows_per_file=10)

    def forge(message: table_pb2.Manifest) -> None:
        message.fields[0].logical_type = "dict:null:int8:false"

    rewrite_manifest(path, forge)
    fs = LanceFileSystem(fo=str(path))
    with pytest.raises(UnsupportedFeature, match=r"the dictionaries .* \.arrows"):
        fs.cat(name)
    with fs.open(f"{name}s") as file:
        assert pa.ipc.open_stream(file).read_all().column("d").null_count == 20


def test_columns_of_row_metadata(wide: str) -> None:
    fs = LanceFileSystem(fo=wide)
    with fs.open("versions/2/columns/_rowid,n00.arrow") as file:
        assert isinstance(file._view, WholeView)
        shown = pa.ipc.open_file(file).read_all()
    assert_same_table(shown, lancefs.open(wide).to_table(columns=["_rowid", "n00"]))


@pytest.mark.parametrize("path", ["latest", "latest/columns/text,n03", "latest/fragments/1"])
def test_streams_have_the_batches_of_files(path: str, wide: str, tmp_path: Path) -> None:
    deleted = str(tmp_path / "deleted.lance")
    shutil.copytree(wide, deleted)
    # The first rows, a whole batch, and some in between.
    lance.dataset(deleted).delete("holes < 10 OR (holes >= 65536 AND holes < 131072)")
    fs = LanceFileSystem(fo=deleted)
    file = pa.ipc.open_file(fs.cat(f"{path}.arrow"))
    batches = [file.get_batch(number) for number in range(file.num_record_batches)]
    streamed = list(pa.ipc.open_stream(fs.cat(f"{path}.arrows")))
    assert [one.num_rows for one in streamed] == [one.num_rows for one in batches]
    assert all(one.equals(other) for one, other in zip(streamed, batches, strict=True))
    assert fs.cat(f"{path}.arrows") == fs.cat(f"{path}.arrows")


def test_columns_of_row_metadata_are_cut_into_the_same_batches(wide: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    shutil.copytree(wide, path)
    lance.dataset(path).delete("n00 % 7 = 1 OR holes < 100")
    fs = LanceFileSystem(fo=path)
    for form, opened in ((".arrow", pa.ipc.open_file), (".arrows", pa.ipc.open_stream)):
        found = []
        for names in ("holes", "holes,_rowid"):
            shown = opened(fs.cat(f"latest/columns/{names}{form}")).read_all()
            found.append([batch.num_rows for batch in shown.to_batches()])
            assert shown["holes"].equals(lancefs.open(path).to_table()["holes"])
        assert found[0] == found[1]
        assert len(found[0]) == 3
