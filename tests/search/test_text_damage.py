"""Damaged files of full-text indices: the same rows, or an error of the family; nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter
from listed_indices import write_listed
from support import rewrite_index_section
from text_tables import ours, rows, write

from lancefs import MatchQuery, PhraseQuery
from lancefs.errors import LanceError

QUERIES = [
    "house word250",
    MatchQuery("house running", "t", operator="AND"),
    PhraseQuery("running house", "t"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "t.lance"
    write(path, rows(400), with_position=True)
    return path


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with an index of Lance 0.20 to 0.27."""
    path = tmp_path_factory.mktemp("listed") / "t.lance"
    write_listed(path, rows(400))
    return path


def check_mutants(whole: Path, tmp_path: Path, seeds: range) -> None:
    """Change a byte or more of an index file, or cut it, for each seed."""
    expected = [sorted(ours(str(whole), query)["id"].to_pylist()) for query in QUERIES]
    path = tmp_path / "t.lance"
    shutil.copytree(whole, path)
    files = sorted(path.glob("_indices/*/*.lance"))
    for seed in seeds:
        draw = np.random.default_rng(seed)
        file = files[seed % len(files)]
        good = file.read_bytes()
        data = bytearray(good)
        for _ in range(int(draw.integers(1, 4))):
            data[int(draw.integers(len(data)))] = int(draw.integers(256))
        file.write_bytes(bytes(data[: int(draw.integers(len(data)))] if seed % 10 == 9 else data))
        for query, known in zip(QUERIES, expected, strict=True):
            try:
                found = sorted(ours(str(path), query)["id"].to_pylist())
            except LanceError:
                continue
            # Values are not covered by checksums: another document or frequency may look whole.
            assert set(found) <= set(range(400)), seed
            assert len(set(found)) == len(found), (seed, known)
        file.write_bytes(good)


@pytest.mark.filterwarnings("ignore")
def test_damage_is_an_error_or_read_around(whole: Path, tmp_path: Path) -> None:
    check_mutants(whole, tmp_path, range(120))


@pytest.mark.filterwarnings("ignore")
def test_damage_of_listed_postings_is_an_error_or_read_around(listed: Path, tmp_path: Path) -> None:
    check_mutants(listed, tmp_path, range(60))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_damage_of_many_gives_another_error(whole: Path, tmp_path: Path) -> None:
    check_mutants(whole, tmp_path, range(1000, 3000))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_damage_of_many_listed_postings_gives_another_error(
    listed: Path, tmp_path: Path
) -> None:
    check_mutants(listed, tmp_path, range(1000, 3000))


@pytest.mark.parametrize("part", ["docs", "invert", "tokens"])
def test_the_texts_of_a_segment_that_lacks_a_file_are_read(
    whole: Path, tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = without(whole, tmp_path, f"part_0_{part}.lance")
    expected, found = ours(str(whole), "house", None), ours(path, "house", None)
    assert found["id"].to_pylist() == expected["id"].to_pylist()
    np.testing.assert_allclose(found["_score"], expected["_score"], rtol=1e-5)
    assert f"part_0_{part}" in caplog.text


@pytest.mark.parametrize("part", ["docs", "invert"])
def test_the_texts_of_a_listed_segment_that_lacks_a_file_are_read(
    listed: Path, tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = without(listed, tmp_path, f"{part}.lance")
    expected, found = ours(str(listed), "house", None), ours(path, "house", None)
    assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    assert f"{part}.lance" in caplog.text


def test_how_a_missing_segment_makes_tokens_is_not_guessed(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(LanceError, match=r"metadata\.lance"):
        ours(without(whole, tmp_path, "metadata.lance"), "house")


def without(whole: Path, tmp_path: Path, name: str) -> str:
    """A copy of the table without a file of its index."""
    path = tmp_path / "t.lance"
    shutil.copytree(whole, path)
    next(iter(path.glob(f"_indices/*/{name}"))).unlink()
    return str(path)


STREAM, OFFSETS = "_compressed_position", "_position_block_offset"
BLOCKS = pa.list_(pa.list_(pa.large_binary()))


@pytest.mark.parametrize(
    "columns",
    [
        {OFFSETS: pa.array([0])},
        {OFFSETS: pa.array(["x"])},
        {OFFSETS: pa.array([["x"]])},
        {OFFSETS: pa.array([[-1]])},
        {OFFSETS: pa.array([[None]], pa.list_(pa.uint32()))},
        {STREAM: pa.array(["x"])},
        {STREAM: None, OFFSETS: None, "_position": pa.array([7])},
        {STREAM: None, OFFSETS: None, "_position": pa.array([[7]])},
        {STREAM: None, OFFSETS: None, "_position": pa.array([[[7]]])},
        {STREAM: None, OFFSETS: None, "_position": pa.array([[None]], BLOCKS)},
        {STREAM: None, OFFSETS: None, "_position": pa.array([[[None]]], BLOCKS)},
    ],
)
def test_where_positions_have_another_type_the_texts_are_read(
    whole: Path,
    tmp_path: Path,
    columns: Mapping[str, pa.Array | None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = PhraseQuery("running house", "t")
    expected = ours(str(whole), query)
    path = tmp_path / "t.lance"
    shutil.copytree(whole, path)
    (file,) = path.glob("_indices/*/*invert.lance")
    reader = LanceFileReader(str(file))
    metadata, table = reader.metadata().schema.metadata, reader.read_all().to_table()
    for name, values in columns.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        if values is not None:
            all_alike = values.take(pa.array(np.zeros(len(table), np.int64)))
            table = table.append_column(name, all_alike)
    file.unlink()
    with LanceFileWriter(str(file), table.schema.with_metadata(metadata)) as writer:
        writer.write_batch(table)
    rewrite_index_section(path, lambda section: section.indices[0].ClearField("files"))
    found = ours(str(path), query)
    assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    assert "osition" in caplog.text


@pytest.mark.parametrize("layout", ["stream", "lists"])
def test_positions_of_few_bytes_take_no_gigabytes(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Few bytes stand for 128 positions, all at the beginning of a document."""
    path = tmp_path / "t.lance"
    texts = pa.table({"id": [0, 1], "t": ["alpha beta", "alpha beta"]})
    write(path, texts, with_position=True)
    (file,) = path.glob("_indices/*/*invert.lance")
    reader = LanceFileReader(str(file))
    metadata, table = reader.metadata().schema.metadata, reader.read_all().to_table()
    groups = 1 << 18  # of each of two documents
    number = _varint(128 * groups)
    rows = table.to_pylist()
    for row in rows:
        row["_posting"] = [row["_posting"][0][:4] + b"\0\1" + number + number]
        row[STREAM], row[OFFSETS] = bytes(2 * groups), [0]
    forged = pa.Table.from_pylist(rows, schema=table.schema)
    if layout == "lists":
        blocks = [(128 * groups).to_bytes(4, "little"), *[bytes(5)] * groups]
        forged = forged.drop_columns([STREAM, OFFSETS])
        forged = forged.append_column("_position", pa.array([[blocks] * 2] * len(rows), BLOCKS))
    file.unlink()
    with LanceFileWriter(str(file), forged.schema.with_metadata(metadata)) as writer:
        writer.write_batch(forged)
    rewrite_index_section(path, lambda section: section.indices[0].ClearField("files"))
    found = ours(str(path), PhraseQuery("alpha beta", "t"))
    assert sorted(found["id"].to_pylist()) == [0, 1]
    assert "would expand to" in caplog.text


def _varint(number: int) -> bytes:
    data = bytearray()
    while number >= 128:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])
