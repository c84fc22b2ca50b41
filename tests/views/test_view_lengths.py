"""Outlines have the lengths and nulls of the values, in every format of data files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from leaks import forget_views
from store_doubles import CountingFileSystem, SlowFileSystem
from support import examples

import lancefs
from lancefs.datafile.blocks import Block, Constant, Dictionary
from lancefs.datafile.outlines import outline_of, without_values
from lancefs.datafile.v2_0 import array_outlines
from lancefs.datafile.v2_1.layouts import outline_pages as layouts
from lancefs.errors import LanceError
from lancefs.filesystem import LanceFileSystem
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

FORMATS = ["legacy", "2.0", "2.1", "2.2", "2.3"]
LENGTHS = [0, 1, 7, 40, 300, 5000]
ROWS = 20_000


def read_outlines(path: str, ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Read the outline of each column in row ranges of the only fragment."""
    dataset = lancefs.open(path)
    (reader,) = dataset.opened.readers
    outlines = [outline_of(field) for field in dataset.manifest.fields]
    found = reader.read([one for one in outlines if one is not None], ranges)
    return dict(zip(dataset.schema.names, found, strict=True))


def expected(column: pa.ChunkedArray) -> list[int | None]:
    """Return the expected outline of a column: lengths of strings, zeros for other values."""
    is_text = pa.types.is_large_unicode(column.type) or pa.types.is_string(column.type)
    if is_text or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        lengths = pc.binary_length(column)
    else:
        lengths = pc.if_else(column.is_valid(), 0, None)
    found: list[int | None] = lengths.to_pylist()
    return found


@st.composite
def columns(draw: st.DrawFn) -> pa.Table:
    source = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = draw(st.sampled_from([1, 5, 1000, 5000]))
    made = {}
    for name, data_type in (("t", pa.string()), ("u", pa.large_binary()), ("n", pa.int64())):
        most = draw(st.sampled_from(LENGTHS if rows <= 1000 else LENGTHS[:5]))
        distinct = draw(st.sampled_from([1, 4, 100, rows]))
        nulls = draw(st.sampled_from([0.0, 0.2, 1.0]))
        words = [
            b"ab cd "[: i % 7] * int(n)
            for i, n in enumerate(source.integers(0, most // 6 + 2, distinct))
        ]
        if name == "n":
            items = pa.array(source.integers(0, 1 << draw(st.sampled_from([1, 20, 60])), distinct))
        else:
            items = pa.array(words, pa.large_binary()).cast(data_type)
        chosen = source.integers(0, distinct, rows)
        made[name] = items.take(pa.array(chosen, mask=source.random(rows) < nulls))
    return pa.table(made)


@pytest.mark.parametrize("data_format", FORMATS)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(table=columns(), cuts=st.lists(st.integers(0, 5000), max_size=6, unique=True))
def test_lengths_are_those_of_the_values(
    data_format: str, table: pa.Table, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("lengths") / "t.lance")
    lance.write_dataset(table, path, data_storage_version=data_format)
    table = lancefs.open(path).to_table()  # files of 0.1 do not have all nulls
    borders = sorted(cut for cut in cuts if cut < table.num_rows)
    ranges = list(zip(borders[::2], borders[1::2], strict=False)) or [(0, table.num_rows)]
    rows = pa.array(np.concatenate([np.arange(*one) for one in ranges]))
    for name, lengths in read_outlines(path, ranges).items():
        assert lengths.to_pylist() == expected(table[name].take(rows))


def nested(data_format: str, rows: int = ROWS) -> pa.Table:
    """Return columns of all nested types, with nulls at every level that the format supports."""
    rng = np.random.default_rng(21)
    holes = rng.random(rows * 2) < 0.2
    words = [f"word number {i % 977} " + "x" * (i % 23) for i in range(rows * 2)]
    some = pa.array(words, mask=holes)
    numbers = pa.array(range(rows * 2), mask=holes)
    ends = np.minimum(np.cumsum(np.append(0, rng.integers(0, 4, rows))), rows * 2)
    ends = pa.array(ends.astype(np.int32))
    pairs = pa.array(np.repeat(np.arange(0, rows + 1, 2, np.int32), 2)[1:])  # of every second row
    floats = pa.array(rng.standard_normal(rows * 40).astype(np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(floats, 40)
    big = pa.array([b"0123456789" * (30 + i % 9) for i in range(rows)])
    made = {
        "id": pa.array(range(rows)),
        "texts": pa.ListArray.from_arrays(ends, some),
        "numbers": pa.LargeListArray.from_arrays(ends.cast(pa.int64()), numbers),
        "struct": pa.StructArray.from_arrays([some[:rows], numbers[:rows]], ["text", "number"]),
        "vector": vectors,
        "big": big,
    }
    if data_format == "legacy":  # which has no nulls but empty strings
        return pa.table(made)
    absent = pa.array(holes[:rows])
    kept = pa.array(np.arange(rows), mask=holes[:rows])
    lists = pa.ListArray.from_arrays(ends, some, mask=absent)
    inner = pa.StructArray.from_arrays([lists, some[:rows]], ["inner", "text"])
    made["null_texts"] = lists
    made["deep"] = pa.ListArray.from_arrays(pairs, inner)
    made["null_vector"] = vectors.take(kept)
    if data_format != "2.0":
        members = [some[:rows], big, big.take(kept)]
        made["null_struct"] = pa.StructArray.from_arrays(members, list("abc"), mask=absent)
        made["null_big"] = big.take(kept)
        made["bigs"] = pa.ListArray.from_arrays(pairs, big)
    if data_format in ("2.2", "2.3"):
        made["map"] = pa.MapArray.from_arrays(ends, pa.array(words), some)
    return pa.table(made)


@pytest.fixture(scope="module", params=FORMATS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of nested columns with deleted rows, and with fragments that lack a column."""
    data_format, path = request.param, tmp_path_factory.mktemp("lengths") / "t.lance"
    rows = nested(data_format)
    dataset = lance.write_dataset(
        rows, path, data_storage_version=data_format, max_rows_per_file=ROWS // 2
    )
    dataset.delete("id % 10 = 3")
    if data_format != "legacy":
        dataset.add_columns({"added": "concat('row ', cast(id as string))"})
        lance.write_dataset(rows.drop_columns(["struct"]).slice(0, 100), path, mode="append")
    return path


@pytest.fixture
def table(written: Path, tmp_path: Path) -> str:
    """A copy of it, of whose files nothing is known yet."""
    return str(shutil.copytree(written, tmp_path / "t.lance", copy_function=shutil.copy))


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that receives the blocks of values that outlines decode only for their lengths."""
    seen: list[Any] = []

    def noted(block: Block, data_type: pa.DataType) -> Block:
        if not isinstance(block, Dictionary | Constant):
            seen.append(block)
        return without_values(block, data_type)

    monkeypatch.setattr(layouts, "without_values", noted)
    monkeypatch.setattr(array_outlines, "without_values", noted)
    return seen


def test_the_size_of_nested_columns_is_known_without_a_value(
    table: str, decoded: list[str], dropped: list[Any]
) -> None:
    fs = LanceFileSystem(fo=table)
    size = fs.info("latest.arrow")["size"]
    assert decoded == []
    assert dropped == [] or lance.dataset(table).data_storage_version == "2.3"
    whole = fs.cat("latest.arrow")
    assert len(whole) == size
    assert pa.ipc.open_file(whole).read_all().equals(lancefs.open(table).to_table())


def test_reading_one_column_decodes_no_values_of_other_columns(
    table: str, decoded: list[str]
) -> None:
    fs = LanceFileSystem(fo=table)
    with fs.open("latest.arrow") as file:
        options = pa.ipc.IpcReadOptions(included_fields=[0])
        batch = pa.ipc.open_file(file, options=options).get_batch(0)
    assert batch.equals(lancefs.open(table).to_table(columns=["id"]).to_batches()[0][: len(batch)])
    assert set(decoded) <= {"id"}


def test_remote_and_local_views_are_equal(table: str) -> None:
    here = LanceFileSystem(fo=table).cat("latest.arrow")
    forget_views()
    assert LanceFileSystem(fo=table, fs=SlowFileSystem(0.0)).cat("latest.arrow") == here


def fetched_by(path: Path, what: Callable[[LanceFileSystem], None]) -> float:
    """Use the views of a remote table; return fetched bytes / bytes of its data files."""
    store = CountingFileSystem()
    store.put_tree(path, "/t.lance")
    forget_views()
    what(LanceFileSystem(fo="/t.lance", fs=store))
    stored = sum(file.stat().st_size for file in (path / "data").iterdir())
    return store.bytes_read() / stored


@pytest.mark.parametrize("data_format", ["legacy", "2.0"])
def test_the_size_of_a_remote_view_takes_no_bytes_of_strings(
    data_format: str, tmp_path: Path
) -> None:
    rows = 100_000
    texts = pa.array([f"a text that is rather long, number {i}" for i in range(rows)])
    made = {
        "texts": pa.ListArray.from_arrays(pa.array(range(0, rows + 1, 4), pa.int32()), texts),
        "struct": pa.StructArray.from_arrays([texts[: rows // 4]], ["text"]),
    }
    lance.write_dataset(pa.table(made), tmp_path / "t", data_storage_version=data_format)
    share = fetched_by(tmp_path / "t", lambda fs: fs.info("latest.arrow"))
    assert 0.1 < share < 0.3  # 8 bytes of each string


def test_the_size_of_a_remote_view_takes_no_bytes_of_large_values(tmp_path: Path) -> None:
    images = [bytes([i % 256]) * (5000 + i) for i in range(2000)]
    struct = pa.StructArray.from_arrays([pa.array(images), pa.array(range(2000))], ["image", "id"])
    lance.write_dataset(pa.table({"struct": struct}), tmp_path / "t", data_storage_version="2.1")
    assert fetched_by(tmp_path / "t", lambda fs: fs.info("latest.arrow")) < 0.02


def test_remote_values_reuse_the_metadata_read_for_their_outline(tmp_path: Path) -> None:
    lists = pa.array([[i, i + 1] for i in range(50_000)])
    lance.write_dataset(pa.table({"lists": lists}), tmp_path / "t", data_storage_version="2.1")
    store = SlowFileSystem(0.0)
    resolved = resolve(Store(store, str(tmp_path / "t")))
    dataset = lancefs.LanceDataset(OpenVersion(resolved))
    (reader,), (field,) = dataset.opened.readers, dataset.manifest.fields
    outline = outline_of(field)
    assert outline is not None
    reader.read([outline], [(7, 9)])
    before = len(store.requests)
    assert reader.read([field], [(7, 9)])[0].to_pylist() == [[7, 8], [8, 9]]
    assert len(store.requests) - before == 1  # the chunk, and no table of chunks


def test_remote_nulls_of_2_0_take_one_bit_each(tmp_path: Path) -> None:
    holes = np.random.default_rng(2).random((8, 50_000)) < 0.1
    made = {f"n{i}": pa.array(range(50_000), mask=mask) for i, mask in enumerate(holes)}
    table = pa.table({"id": range(50_000), **made})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.0")

    def read_one(fs: LanceFileSystem) -> None:
        with fs.open("latest.arrow") as file:
            options = pa.ipc.IpcReadOptions(included_fields=[0])
            rows = pa.ipc.open_file(file, options=options).read_all()
        assert rows.column("id").equals(table["id"])

    assert 1 / 9 < fetched_by(tmp_path / "t", read_one) < 1 / 6


def test_a_nullable_table_of_text_is_laid_out_without_a_value(
    tmp_path: Path, decoded: list[str]
) -> None:
    rng = np.random.default_rng(3)
    rows = 100_000
    words = pa.array([f"some words, number {i}" for i in range(rows)])
    holes = rng.random(rows) < 0.3
    table = pa.table(
        {
            "fsst": words,
            "nulls": words.take(pa.array(rng.integers(0, rows, rows), mask=holes)),
            "few": pa.array(["red", "green", None, ""]).take(pa.array(rng.integers(0, 4, rows))),
            "same": pa.array(["always"] * rows),
            "number": pa.array(rng.standard_normal(rows), mask=holes),
        }
    )
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path).delete("number > 1.5")
    fs = LanceFileSystem(fo=path)
    size = fs.info("latest.arrow")["size"]
    with fs.open("latest.arrow") as file:
        pa.ipc.open_file(file).get_batch(1)  # pyarrow reads all of its columns
    assert set(decoded) == set(table.column_names)
    decoded.clear()
    fs.info("latest/columns/nulls,number.arrow")
    assert decoded == []
    whole = fs.cat("latest.arrow")
    assert len(whole) == size
    assert pa.ipc.open_file(whole).read_all().equals(lancefs.open(path).to_table())


@pytest.mark.skipif(not hasattr(pa, "json_"), reason="this pyarrow has no JSON")
def test_the_length_of_json_is_that_of_its_text(tmp_path: Path, decoded: list[str]) -> None:
    texts = [f'{{"a": {i}, "b": "{"x" * (i % 900)}"}}' for i in range(2000)]
    json = pa.array(texts, pa.json_())
    lists = pa.array([[text] * 2 for text in texts], pa.list_(pa.string()))
    table = pa.table({"j": json, "lists": lists})
    path = str(tmp_path / "j.lance")
    lance.write_dataset(table, path, data_storage_version="2.2")
    fs = LanceFileSystem(fo=path)
    size = fs.info("latest.arrow")["size"]
    assert decoded == ["j"]  # nothing but the values tells how long the text is
    whole = fs.cat("latest.arrow")
    assert len(whole) == size
    assert pa.ipc.open_file(whole).read_all().equals(lancefs.open(path).to_table())


@pytest.mark.parametrize("tries", [100, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("data_format", FORMATS)
def test_damage_is_refused_and_never_gives_a_wrong_size(
    data_format: str, tries: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(9)
    rows = 3000
    words = pa.array([f"some words {i}" for i in range(rows)])
    holes = rng.random(rows) < 0.1
    table = pa.table(
        {
            "fsst": words.take(pa.array(rng.integers(0, rows, rows), mask=holes)),
            "few": pa.array(["a", "bbbb", None]).take(pa.array(rng.integers(0, 3, rows))),
            "lists": pa.ListArray.from_arrays(
                pa.array(np.minimum(np.arange(rows + 1) // 2 * 3, rows), pa.int32()), words
            ),
        }
    )
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path, data_storage_version=data_format)
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    sound = file.read_bytes()
    file.chmod(0o644)
    refused = 0
    for place in rng.integers(0, len(sound), tries).tolist():
        data = bytearray(sound)
        data[place] ^= int(rng.integers(1, 256))
        file.write_bytes(data)
        forget_views()
        fs = LanceFileSystem(fo=path, skip_instance_cache=True)
        try:
            size = fs.info("latest.arrow")["size"]
        except LanceError:
            refused += 1
            continue
        try:
            values = lancefs.open(path).to_table()
        except LanceError:
            continue
        assert len(fs.cat("latest.arrow")) == size
        assert pa.ipc.open_file(fs.cat("latest.arrow")).read_all().equals(values)
    assert refused > tries // 30
