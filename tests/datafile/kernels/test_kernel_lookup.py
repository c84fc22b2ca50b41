"""Values looked up in a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from lancefs.datafile import kernels
from lancefs.errors import CorruptFile


def test_an_index_beyond_the_dictionary_is_refused() -> None:
    with pytest.raises(CorruptFile, match="index 2 into a dictionary of 2 items"):
        kernels.take(np.array([1, 2], np.uint64), np.array([0, 2], np.uint8))


def test_a_null_has_no_text_whatever_its_index_is() -> None:
    items = np.frombuffer(b"onetwo", np.uint8)
    offsets, valid = np.array([0, 3, 6], np.int32), np.array([True, False, True])
    found = kernels.take_strings(offsets, items, np.array([1, 0, 0], np.uint32), valid)
    assert found[0].tolist() == [0, 3, 3, 6]
    assert found[1].tobytes() == b"twoone"


def test_values_of_no_bytes_are_looked_up() -> None:
    items = np.empty(2, "V0")
    assert len(kernels.take(items, np.array([0, 1, 1], np.uint8))) == 3
    with pytest.raises(CorruptFile):
        kernels.take(items, np.array([0, 2], np.uint8))
