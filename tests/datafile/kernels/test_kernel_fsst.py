"""FSST strings, spelled out code by code."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from drawing import Arguments
from hypothesis import given, settings
from string_inputs import fsst_strings
from support import examples

from lancefs.datafile import kernels
from lancefs.errors import CorruptFile


@settings(max_examples=examples(60))
@given(fsst_strings())
def test_fsst_codes_are_spelled_out_one_by_one(arguments: Arguments) -> None:
    table, offsets, data = arguments
    expected: list[bytes] | None = []
    for start, end in pairwise(offsets.tolist()):
        codes = iter(data[start:end].tolist())
        text = b""
        for code in codes:
            literal = next(codes, None) if code == 255 else None
            length = int(table.lengths[code])
            if expected is None or (code == 255 and literal is None) or (code < 255 and not length):
                expected = None  # damaged
                break
            text += (
                bytes([literal]) if literal is not None else table.symbols[code, :length].tobytes()
            )
        if expected is not None:
            expected.append(data[start:end].tobytes() if table.raw else text)
    try:
        ends, spelled = kernels.decode_fsst(table, offsets, data)
    except CorruptFile:
        return  # what may be refused is the matter of the tests above
    found = [spelled[start:end].tobytes() for start, end in pairwise(ends.tolist())]
    assert table.raw or expected is not None
    assert expected is None or found == expected


@settings(max_examples=examples(60))
@given(fsst_strings())
def test_fsst_strings_are_as_long_as_they_are_spelled(arguments: Arguments) -> None:
    try:
        ends, _ = kernels.decode_fsst(*arguments)
    except CorruptFile:
        with pytest.raises(CorruptFile):
            kernels.fsst_lengths(*arguments)
        return
    assert kernels.fsst_lengths(*arguments).tolist() == np.diff(ends).tolist()
