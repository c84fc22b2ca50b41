"""Pages are decoded as one where they can be; what goes wrong in that is never hidden.

Damage is named by decoding each page alone. Where that finds none, joined decoding has a bug, which
users are warned of. Other errors, which are bugs as well, come out as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.v2_1 import assembly, leaf_columns, page_fetcher
from lancefs.datafile.v2_1.layouts.chunk_runs import ChunkRun, decode
from lancefs.datafile.v2_1.levels import DecodedPage
from lancefs.errors import CorruptFile, DecoderWarning, UnsupportedFeature

ROWS = (1000, 997)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two fragments, whose pages of numbers are alike and whose pages of lists of words are not."""
    path = tmp_path / "t.lance"
    rng = np.random.default_rng(0)
    for number, rows in enumerate(ROWS):
        words = [[rng.bytes(30).hex() if number else f"word {row % 3}"] for row in range(rows)]
        columns = pa.table({"number": np.arange(rows), "word": words})
        lance.write_dataset(columns, path, mode="append" if number else "create")
    return path


def _break(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Have joined decoding, and nothing else, raise an error."""

    def refuse(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(assembly, "decode_together", refuse)


@pytest.mark.parametrize("bug", [TypeError, IndexError, ValueError, MemoryError, pa.ArrowTypeError])
def test_a_bug_in_joined_decoding_comes_out(
    table: Path, monkeypatch: pytest.MonkeyPatch, bug: type[Exception]
) -> None:
    _break(monkeypatch, bug("a bug"))
    with pytest.raises(bug, match="a bug"):
        lancefs.open(table).to_table()


def test_joined_decoding_that_refuses_sound_pages_fails_the_tests(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break(monkeypatch, CorruptFile("made up"))
    with pytest.raises(AssertionError, match="joined decode refused what single decode accepts"):
        lancefs.open(table).to_table()


def test_joined_decoding_that_refuses_sound_pages_warns_users_once(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = lancefs.open(table).to_table(columns=["word"])
    monkeypatch.setattr(assembly, "FAILS_WHERE_DECODERS_DISAGREE", False)
    monkeypatch.setattr(assembly, "_is_reported", False)
    _break(monkeypatch, CorruptFile("made up"))
    with pytest.warns(DecoderWarning, match="please report") as warned:
        found = lancefs.open(table).to_table(columns=["word"])
    assert found.equals(expected)
    (warning,) = warned
    message = str(warning.message)
    assert message.startswith(str(table / "data"))
    assert "made up" in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lancefs.open(table).to_table(columns=["word"]).equals(expected)


def test_an_unsupported_page_is_named_with_its_own_file(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pieces: Sequence[Sequence[ChunkRun]]) -> list[DecodedPage]:
        if any(run.rows == ROWS[1] for piece in pieces for run in piece):
            raise UnsupportedFeature("an encoding from the future")
        return decode(pieces)

    monkeypatch.setattr(leaf_columns, "decode", refuse)
    dataset = lancefs.open(table)
    path = dataset.manifest.fragments[1].files[0].path
    with pytest.raises(
        UnsupportedFeature, match=rf"{path}: word, column 1 \(item\), page 0: an enc"
    ):
        dataset.to_table(columns=["word"])


@pytest.mark.parametrize("error", [CorruptFile("damaged"), UnsupportedFeature("unknown")])
def test_what_is_wrong_with_the_description_of_a_page_is_named_before_bytes_are_asked_for(
    table: Path, monkeypatch: pytest.MonkeyPatch, error: CorruptFile | UnsupportedFeature
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(page_fetcher, "layout_of", refuse)
    with pytest.raises(type(error), match=r"\.lance: word, column 1 \(item\), page 0: (dam|unk)"):
        lancefs.open(table).to_table(columns=["word"])
