"""Damaged, missing and unknown index files: the rows of a scan, or an answer that is the same."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from histories import create
from support import local_store, rewrite_manifest

import lancefs
from lancefs.datafile.container import Container
from lancefs.index import lookup, segments

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
    "price < -4 OR id = 5",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "t.lance"
    create(path, False, "2.1")
    return path


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_SMALL_ROWS", 2**20)
    monkeypatch.setattr(lookup, "_SMALL_RANGES", 2**20)


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


def index_files(table: Path) -> list[Path]:
    return sorted((table / "_indices").rglob("*.lance"))


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


def mutants(file: Path, seed: int) -> Iterator[bytes]:
    """The bytes of a file with a few of them changed in what follows its pages.

    Nothing tells that a value or a row number is another one than was written: the format has no
    checksums.
    """
    data, draw = file.read_bytes(), np.random.default_rng(seed)
    container = Container(local_store(file.parent).file(file.name))
    columns = range(len(container.footer.columns))
    pages = [page for column in columns for page in container.column(column).pages]
    start = max(end for page in pages for _, end in page.buffers)
    for _ in range(4):
        changed = bytearray(data)
        for _ in range(draw.integers(1, 4)):
            changed[draw.integers(start, len(data))] = draw.integers(0, 256)
        yield bytes(changed)


def test_damaged_metadata_of_index_files_changes_no_row(copy: Path) -> None:
    expected = expected_rows(copy)
    for number, file in enumerate(index_files(copy)):
        sound = file.read_bytes()
        for changed in list(mutants(file, number)):
            file.write_bytes(changed)
            check(copy, expected)
        file.write_bytes(sound)


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
