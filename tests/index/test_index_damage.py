"""Damaged, missing and unknown index files: the rows of a scan, or an answer that is the same."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import local_store, rewrite_manifest

import lancefs
from lancefs.datafile.container import Container
from lancefs.index import segments

FILTERS = [
    "id = 17",
    "id IN (3, 99, 200, 5000)",
    "id BETWEEN 120 AND 160",
    "name = 'n007é'",
    "name LIKE 'n01%'",
    "real > 15",
    "real IS NULL",
    "cat = 'c2'",
    "cat IS NULL",
    "small IN (1, 2)",
    "small = 1 AND cat IN ('c2', 'c3') AND NOT flag",
    "price < -4 OR id = 5",
    "level = 3",
    "word LIKE 'wwwé%' OR level > 70",
    "array_has(tags, 't3')",
    "array_has_all(tags, ['t1', 't2']) OR tags IS NULL",
    "array_has(marks, 5)",
    "contains(text, 'green')",
    "text LIKE '%Earl%abc%' OR text IS NULL",
    "code = 17",
    "key IN ('k40', 'k41')",
    "heat = 0 OR code IS NULL",
    "day = date '2020-01-15'",
    "at < timestamp '2024-01-01T03:00:00Z'",
    "NOT flag",
    "ratio < 3",
]


pytestmark = pytest.mark.usefixtures("eager")


def expected_rows(table: Path) -> dict[str, list[int]]:
    dataset = lancefs.open(table)
    return {
        text: dataset.to_table(["id"], text, use_index=False)["id"].to_pylist() for text in FILTERS
    }


def check(table: Path, expected: dict[str, list[int]]) -> None:
    dataset = lancefs.open(table)
    for text, ids in expected.items():
        assert dataset.to_table(["id"], text)["id"].to_pylist() == ids, text
        assert dataset.count_rows(text) == len(ids), text


def asking(table: Path, file: Path, expected: dict[str, list[int]]) -> dict[str, list[int]]:
    """Choose the filters that ask an index, by one of its files, from all filters."""
    uuid = file.parent.name
    (column,) = (index.columns[0] for index in lancefs.open(table).indices() if index.uuid == uuid)
    asking = {text: ids for text, ids in expected.items() if re.search(rf"\b{column}\b", text)}
    assert asking, column
    return asking


def index_files(table: Path) -> list[Path]:
    """The files of all indices, in an order that is the same in each run."""
    segments = sorted(lancefs.open(table).indices(), key=lambda index: index.name)
    return [
        file
        for segment in segments
        for file in sorted((table / "_indices" / segment.uuid).iterdir())
    ]


@pytest.fixture
def copy(table: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(table, tmp_path / "t.lance"))


def test_without_its_index_files_a_table_is_scanned_with_one_warning(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = expected_rows(copy)
    shutil.rmtree(copy / "_indices")
    with caplog.at_level(logging.WARNING, "lancefs"):
        check(copy, expected)
    assert caplog.messages
    assert len(set(caplog.messages)) == len(caplog.messages)


@pytest.mark.parametrize("size", [0, 7, 100])
def test_index_files_that_were_cut_short_are_scanned(copy: Path, size: int) -> None:
    expected = expected_rows(copy)
    for file in index_files(copy):
        file.write_bytes(file.read_bytes()[:size])
    check(copy, expected)


def pages_of(file: Path) -> list[list[tuple[int, int]]]:
    """The bytes of the pages of each column."""
    container = Container(local_store(file.parent).file(file.name))
    return [
        [tuple(part) for page in container.column(number).pages for part in page.buffers]
        for number in range(len(container.footer.columns))
    ]


def changes(size: int, places: Sequence[tuple[int, int]], count: int, seed: int) -> Iterator[Any]:
    """Draw places of bytes to change, and their new values."""
    draw = np.random.default_rng(seed)
    where = np.concatenate([np.arange(start, min(end, size)) for start, end in places])
    for _ in range(count):
        some = draw.choice(where, draw.integers(1, 4))
        yield list(zip(some.tolist(), draw.integers(0, 256, len(some)).tolist(), strict=True))


def each_mutant(table: Path, file: Path, drawn: Iterable[Any]) -> Iterator[None]:
    """Write a file with some bytes changed, mutant after mutant; then as it was."""
    sound = file.read_bytes()
    for change in drawn:
        mutant = bytearray(sound)
        for at, value in change:
            mutant[at] = value
        if mutant != sound:
            file.write_bytes(mutant)
            yield
    file.write_bytes(sound)


def test_damaged_metadata_of_index_files_changes_no_row(copy: Path) -> None:
    expected = expected_rows(copy)
    for number, file in enumerate(index_files(copy)):
        size = file.stat().st_size
        start = max(end for parts in pages_of(file) for _, end in parts)
        drawn = changes(size, [(start, size)], 4, number)
        for turn, _ in enumerate(each_mutant(copy, file, drawn)):
            # The other filters do not read the file.
            check(copy, asking(copy, file, expected) if turn else expected)


def test_damaged_row_numbers_change_no_row(copy: Path) -> None:
    """A row number that is another one gives itself away, also where it is well formed."""
    expected = expected_rows(copy)
    for number, file in enumerate(index_files(copy)):
        if file.name == "page_data.lance":
            _, ids = pages_of(file)
            asked = asking(copy, file, expected)
            for _ in each_mutant(copy, file, changes(file.stat().st_size, ids, 6, number)):
                check(copy, asked)


def check_mutants(table: Path, count: int, seed: int) -> None:
    """Ask indices with so many mutants of each of their files: no row is made up or repeated.

    A value that is changed and still in order loses its row: nothing in the file shows that.
    """
    expected = expected_rows(table)
    lost = asked = 0
    for number, file in enumerate(index_files(table)):
        size = file.stat().st_size
        some = asking(table, file, expected)
        for _ in each_mutant(table, file, changes(size, [(0, size)], count, seed + number)):
            dataset = lancefs.open(table)
            for text, ids in some.items():
                found = dataset.to_table(["id"], text)["id"].to_pylist()
                assert set(found) <= set(ids), text
                assert len(found) == len(set(found)), text
                asked, lost = asked + 1, lost + (found != ids)
                dataset.count_rows(text)
    print(f"{lost} of {asked} filters lost rows")
    assert lost < asked / 50


def test_damage_anywhere_in_an_index_adds_no_row_and_breaks_no_read(copy: Path) -> None:
    check_mutants(copy, 6, 100)


@pytest.mark.slow
def test_no_damage_of_many_adds_a_row_or_breaks_a_read(copy: Path) -> None:
    check_mutants(copy, -(-2000 // len(index_files(copy))), 1000)


def test_an_index_of_an_unknown_version_is_not_read(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = expected_rows(copy)
    monkeypatch.setattr(segments, "HOLDS_ROW_IDS", {"BTree": {7: True}})
    check(copy, expected)
    assert "no index" in lancefs.open(copy).scanner(filter="id = 17").explain()


def test_a_damaged_index_section_is_not_read(copy: Path) -> None:
    expected = expected_rows(copy)
    manifest = sorted((copy / "_versions").iterdir())[0]
    rewrite_manifest(copy, lambda message: setattr(message, "index_section", 1))
    assert manifest.exists()
    check(copy, expected)
