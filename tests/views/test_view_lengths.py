"""Lengths and nulls that are told without values: those of the values, in every format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancefs
from lancefs.datafile.lengths import NULL
from lancefs.errors import LanceError
from lancefs.filesystem import LanceFileSystem
from lancefs.table.value_lengths import lengths_of

FORMATS = ["legacy", "2.0", "2.1", "2.2", "2.3"]
LENGTHS = [0, 1, 7, 40, 300, 5000]


def told(path: str, ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """The lengths of each column in some rows of the only fragment."""
    dataset = lancefs.open(path)
    (reader,) = dataset._fragment_readers
    fields = dataset.manifest.fields
    found = lengths_of(reader, fields, ranges)
    return {field.name: one for field, one in zip(fields, found, strict=True)}


def expected(column: pa.ChunkedArray) -> list[int]:
    """What the values of a column say."""
    is_text = pa.types.is_large_unicode(column.type) or pa.types.is_string(column.type)
    if is_text or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        lengths = pc.binary_length(column)
    else:
        lengths = pc.if_else(column.is_valid(), 0, None)
    return [NULL if one is None else one for one in lengths.to_pylist()]


def longest(column: pa.ChunkedArray) -> int:
    """The bytes of the longest value."""
    return pc.max(pc.binary_length(column)).as_py() or 0


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
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=columns(), cuts=st.lists(st.integers(0, 5000), max_size=6, unique=True))
def test_lengths_are_those_of_the_values(
    data_format: str, table: pa.Table, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("lengths") / "t.lance")
    lance.write_dataset(table, path, data_storage_version=data_format)
    borders = sorted(cut for cut in cuts if cut < table.num_rows)
    ranges = list(zip(borders[::2], borders[1::2], strict=False)) or [(0, table.num_rows)]
    rows = pa.array(np.concatenate([np.arange(*one) for one in ranges]))
    for name, lengths in told(path, ranges).items():
        if data_format in ("legacy", "2.0"):
            assert lengths is None
        elif data_format != "2.3" and (name == "n" or longest(table[name]) < 100):
            assert lengths is not None  # of long values, those that are compressed are not told
        if lengths is not None:
            assert lengths.tolist() == expected(table[name].take(rows))


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
def test_json_is_as_long_as_its_text(tmp_path: Path) -> None:
    texts = [f'{{"a": {i}, "b": "{"x" * (i % 900)}"}}' for i in range(2000)]
    table = pa.table({"j": pa.array(texts, pa.json_())})
    path = str(tmp_path / "j.lance")
    lance.write_dataset(table, path, data_storage_version="2.2")
    fs = LanceFileSystem(fo=path)
    size = fs.info("latest.arrow")["size"]
    whole = fs.cat("latest.arrow")
    assert len(whole) == size
    assert pa.ipc.open_file(whole).read_all().equals(lancefs.open(path).to_table())


def test_damage_is_refused_and_never_gives_a_wrong_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    rows = 3000
    words = pa.array([f"some words {i}" for i in range(rows)])
    table = pa.table(
        {
            "fsst": words.take(pa.array(rng.integers(0, rows, rows), mask=rng.random(rows) < 0.1)),
            "few": pa.array(["a", "bbbb", None]).take(pa.array(rng.integers(0, 3, rows))),
        }
    )
    path = str(tmp_path / "t.lance")
    lance.write_dataset(table, path, data_storage_version="2.1")
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    sound = file.read_bytes()
    file.chmod(0o644)
    refused = 0
    for place in rng.integers(0, len(sound), 400).tolist():
        data = bytearray(sound)
        data[place] ^= int(rng.integers(1, 256))
        file.write_bytes(data)
        try:
            values = lancefs.open(path).to_table()
        except LanceError:
            values = None
        try:
            found = told(path, [(0, rows)])
        except LanceError:
            refused += 1
            assert values is None
            continue
        for name in table.column_names if values is not None else ():
            assert found[name].tolist() == expected(values[name])
    assert refused > 10
