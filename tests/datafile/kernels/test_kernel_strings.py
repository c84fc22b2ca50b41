"""Strings of chunks, and text that is UTF-8."""

from __future__ import annotations

import numpy as np
import pytest
from drawing import Arguments
from hypothesis import given, settings
from string_inputs import string_chunks, strings_of_chunks
from support import examples

from lancefs.datafile import kernels
from lancefs.datafile.kernels import strings
from lancefs.errors import CorruptFile


@settings(max_examples=examples(100))
@given(strings_of_chunks())
def test_single_strings_are_those_of_whole_chunks(arguments: Arguments) -> None:
    *chunk, wanted = arguments
    try:
        offsets, text = strings.join_chunks(*chunk)
        begins, ends = strings.find_strings(*chunk, wanted)
    except CorruptFile:
        return  # damage, which both may find, or positions that do not ascend
    found = [chunk[0][a:b].tobytes() for a, b in zip(begins, ends, strict=True)]
    assert found == [text[offsets[i] : offsets[i + 1]].tobytes() for i in wanted]


@settings(max_examples=examples(60))
@given(string_chunks())
def test_strings_of_chunks_are_as_long_as_they_are_joined(arguments: Arguments) -> None:
    try:
        offsets, _ = kernels.join_chunks(*arguments)
    except CorruptFile:
        with pytest.raises(CorruptFile):
            strings.chunk_lengths(*arguments)
        return
    assert strings.chunk_lengths(*arguments)[0].tolist() == np.diff(offsets).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "größe",
        "漢字",
        "🙂",
        "\x00",
        "\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff",
    ],
)
def test_text_is_utf8(text: str) -> None:
    data = np.frombuffer(text.encode(), np.uint8)
    assert kernels.is_utf8(np.array([0, len(data)], np.int32), data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
        b"a\xc3",
        b"\xe2\x82",
        b"\xf0\x9f\x99",
        b"\xc3a",
    ],
)
def test_other_bytes_are_not_utf8(data: bytes) -> None:
    array = np.frombuffer(data, np.uint8)
    assert not kernels.is_utf8(np.array([0, len(data)], np.int32), array)


def test_a_character_that_two_strings_share_is_not_utf8() -> None:
    assert not kernels.is_utf8(np.array([0, 1, 2], np.int32), np.frombuffer("ö".encode(), np.uint8))
