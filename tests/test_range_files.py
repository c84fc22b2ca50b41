"""What a process has seen of columns lets another one pass over rows; damage costs time only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import fill_disk, warnings_of

import lancefs
from lancefs.scan import fragment_ranges, range_files, value_ranges
from lancefs.scan.stats import ScanStats

FRAGMENTS, ROWS = 20, 10
FILTER = "n = 77"


@pytest.fixture(autouse=True)
def _ranges_of_tiny_fragments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the ranges of fragments of a few rows, which stand for larger ones here."""
    monkeypatch.setattr(fragment_ranges, "_TINY_ROWS", 0)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t.lance")
    count = FRAGMENTS * ROWS
    words = [f"word {i}" for i in range(count)]
    rows = pa.table({"n": range(count), "m": pa.array(range(count), pa.uint8()), "s": words})
    lance.write_dataset(rows, path, max_rows_per_file=ROWS)
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """The directory in which ranges are kept."""
    path = tmp_path / "kept"
    lancefs.keep_ranges(path)
    yield path
    lancefs.keep_ranges(None)


def read(table: str, filter: str = FILTER) -> tuple[pa.Table, ScanStats]:
    """Read as another process would, which shares nothing but the disk."""
    fragment_ranges.forget()
    scanner = lancefs.open(table).scanner(filter=filter)
    return scanner.to_table(), scanner.stats


def file_of(kept: Path) -> Path:
    (found,) = kept.iterdir()
    return found


def test_a_second_process_passes_over_fragments(table: str, kept: Path) -> None:
    code = f"""
import lancefs
from lancefs.scan import fragment_ranges
fragment_ranges._TINY_ROWS = 0
lancefs.open({table!r}).to_table(filter={FILTER!r})
"""
    env = {**os.environ, range_files.VARIABLE: str(kept)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    found, stats = read(table)
    assert found["n"].to_pylist() == [77]
    assert stats.fragments_skipped == FRAGMENTS - 1
    assert stats.rows_decoded == ROWS


def test_texts_are_kept(tmp_path: Path, kept: Path) -> None:
    table = str(tmp_path / "texts.lance")
    rows = pa.table({"s": [f"né\0 {i:03}" for i in range(200)]})
    lance.write_dataset(rows, table, max_rows_per_file=2 * ROWS)
    for skipped in (0, FRAGMENTS // 2 - 1):
        found, stats = read(table, "s = 'né\0 077'")
        assert found["s"].to_pylist() == ["né\0 077"]
        assert stats.fragments_skipped == skipped


def test_nothing_is_written_unless_it_is_asked_for(table: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for _ in range(2):
        assert read(table)[1].fragments_skipped == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_columns_are_kept_beside_each_other(table: str, kept: Path) -> None:
    for filter in ("n > 150", "m < 20"):
        assert read(table, filter)[1].fragments_skipped == 0
    for filter in ("n > 150", "m < 20", "n > 150 and m < 200"):
        found, stats = read(table, filter)
        assert found.equals(lance.dataset(table).to_table(filter=filter))
        assert stats.fragments_skipped > 0


def test_of_a_table_that_grows_the_new_rows_are_read(table: str, kept: Path) -> None:
    read(table, "n >= 0")
    more = pa.table({"n": [77, 500], "m": pa.array([1, 2], pa.uint8()), "s": ["a", "b"]})
    lance.write_dataset(more, table, mode="append")
    found, stats = read(table)
    assert found["n"].to_pylist() == [77, 77]
    assert stats.fragments_skipped == FRAGMENTS - 1
    assert read(table)[1].fragments_skipped == FRAGMENTS - 1


def test_a_file_that_another_one_replaced_is_read(table: str, kept: Path, tmp_path: Path) -> None:
    read(table)
    other = str(tmp_path / "other.lance")
    rows = lance.dataset(table).to_table().set_column(0, "n", pa.array(range(1000, 1200)))
    lance.write_dataset(rows, other, max_rows_per_file=ROWS)
    mine, its = (
        Path(path, "data", lance.dataset(path).get_fragments()[0].data_files()[0].path)
        for path in (table, other)
    )
    os.replace(its, mine)
    found, stats = read(table, "n >= 1000")
    assert found["n"].to_pylist() == list(range(1000, 1000 + ROWS))
    assert stats.fragments_skipped == FRAGMENTS - 1
    assert read(table, "n = 5")[0].num_rows == 0


def test_a_table_that_took_the_place_of_another_one_has_its_own_rows(
    table: str, kept: Path
) -> None:
    read(table)
    shutil.rmtree(table)
    lance.write_dataset(pa.table({"n": [77] * 30}), table, max_rows_per_file=ROWS)
    for _ in range(2):
        found, stats = read(table)
        assert found.num_rows == 30
        assert stats.fragments_skipped == 0


@pytest.mark.parametrize("seed", range(40))
def test_damage_never_changes_rows(
    table: str, kept: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    read(table)
    file = file_of(kept)
    whole = file.read_bytes()
    source = np.random.default_rng(seed)
    data = bytearray(whole)
    if seed % 4 == 0:
        del data[int(source.integers(len(data))) :]
    elif seed % 4 == 1:
        data += source.bytes(int(source.integers(1, 50)))
    else:
        for _ in range(int(source.integers(1, 4))):
            data[int(source.integers(len(data)))] ^= int(source.integers(1, 256))
    file.write_bytes(data)
    found, stats = read(table)
    assert found["n"].to_pylist() == [77]
    if bytes(data) != whole:
        assert stats.fragments_skipped == 0
        assert any("made anew" in said for said in warnings_of(caplog))
    caplog.clear()
    assert read(table)[1].fragments_skipped == FRAGMENTS - 1  # it was made anew
    assert not warnings_of(caplog)


def test_ranges_of_another_table_are_not_used(
    table: str, kept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read(table)
    other = str(tmp_path / "other.lance")
    lance.write_dataset(pa.table({"n": [77] * 30}), other, max_rows_per_file=ROWS)
    shutil.copy(file_of(kept), kept / range_files._name(other))
    assert read(other)[0].num_rows == 30
    assert any(f"it is of {table}" in said for said in warnings_of(caplog))


def test_ranges_of_zones_of_another_length_are_not_used(
    table: str, kept: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(table)
    monkeypatch.setattr(value_ranges, "ZONE_ROWS", 7)
    assert read(table)[0]["n"].to_pylist() == [77]
    assert any("its zones have" in said for said in warnings_of(caplog))


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are those of Unix")
def test_a_folder_that_others_can_write_is_not_used(
    table: str, kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read(table)
    kept.chmod(0o777)
    found, stats = read(table)
    assert found["n"].to_pylist() == [77]
    assert stats.fragments_skipped == 0
    assert any("others can write it" in said for said in warnings_of(caplog))


def test_a_full_disk_costs_time_alone(
    table: str, kept: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch)
    assert read(table)[0]["n"].to_pylist() == [77]
    assert any("No space left on device" in said for said in warnings_of(caplog))
    assert list(kept.iterdir()) == []


def test_the_oldest_tables_make_room(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_files, "_MAX_TABLES", 2)
    tables = [str(tmp_path / f"{number}.lance") for number in range(4)]
    for number, path in enumerate(tables):
        lance.write_dataset(pa.table({"n": range(100)}), path)
        read(path)
        newest = kept / range_files._name(path)
        os.utime(newest, ns=(number, number))  # clocks of filesystems tick slower than tests run
    assert {one.name for one in kept.iterdir()} == {range_files._name(one) for one in tables[2:]}


def test_a_table_beyond_the_limit_is_not_kept(
    table: str, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_files, "_MAX_BYTES", 100)
    for _ in range(2):
        found, stats = read(table)
        assert found["n"].to_pylist() == [77]
        assert stats.fragments_skipped == 0
    assert not kept.exists()


def test_every_kind_of_number_is_kept(tmp_path: Path, kept: Path) -> None:
    numbers = np.arange(100)
    kinds: list[Any] = [
        *(pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.date32()),
        *(pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.duration("ms"), pa.time64("us")),
    ]
    path = str(tmp_path / "kinds.lance")
    stored = [pa.int32() if kind.bit_width == 32 else pa.int64() for kind in kinds]
    columns = [pa.array(numbers, own).cast(kind) for own, kind in zip(stored, kinds, strict=True)]
    rows = pa.table(columns, names=[f"c{index}" for index in range(len(kinds))])
    lance.write_dataset(rows, path, max_rows_per_file=10)
    for name in rows.column_names:
        filter: Any = pc.field(name) == rows[name][55]
        for skipped in (0, 9):
            fragment_ranges.forget()
            scanner = lancefs.open(path).scanner(filter=filter)
            assert scanner.to_table().num_rows == 1
            assert scanner.stats.fragments_skipped == skipped


def test_a_second_process_passes_over_texts_that_no_dictionary_has(
    tmp_path: Path, kept: Path
) -> None:
    hosts = [f"host-{i * 7 % 200:03}.example" for i in range(70_000)]
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"s": hosts}), path)
    for filter, rows, skipped in (
        ("s = 'host-010.example'", 350, 0),
        ("s = 'host-0105.example'", 0, 70_000),
        ("s = 'host-011.example'", 350, 0),
    ):
        found, stats = read(path, filter)
        assert (found.num_rows, stats.rows_skipped) == (rows, skipped)


def test_a_second_process_reads_dictionaries_without_a_text(tmp_path: Path, kept: Path) -> None:
    path = str(tmp_path / "t.lance")
    for texts in (["a", "b"] * ROWS, [None] * ROWS):
        rows = pa.table({"s": pa.array(texts, pa.string()).dictionary_encode()})
        lance.write_dataset(rows, path, mode="append")
    for skipped in (0, ROWS):
        found, stats = read(path, "s = 'a'")
        assert (found.num_rows, stats.rows_skipped) == (ROWS, skipped)
