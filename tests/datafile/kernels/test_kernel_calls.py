"""Calls of the C kernels: their parameters, the arrays that they take, and damage."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawing import ints
from kernel_inputs import PAIRS, needs_library

from lancefs.datafile import kernels
from lancefs.datafile.kernels import calls, segments
from lancefs.errors import CorruptFile

SOURCES = Path(kernels.__file__).parent
# A parameter in C -> its kind in Python.
KINDS = {
    r"int64_t \w+": "number",
    r"const (uint8_t|void) \*\w+": "bytes",
    r"const uint16_t \*\w+": "levels",
    r"const int32_t \*\w+": "offsets",
    r"const int64_t \*\w+": "ints",
    r"const float \*\w+": "floats",
    r"\w+ \*(restrict )?\w+": "out",
}


def kind_of(parameter: str) -> str:
    return next(kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, parameter))


def declared_in_c() -> dict[str, str]:
    found = {}
    for path in SOURCES.glob("*.c"):
        for name, parameters in re.findall(r"^KERNEL\((\w+), ([^)]+)\)", path.read_text(), re.M):
            if parameters != "void":
                kinds = (kind_of(" ".join(p.split())) for p in parameters.split(","))
                found[name] = " ".join(kinds)
    return found


def declared_in_python() -> dict[str, str]:
    calls = re.compile(r'c_function\(\s*"(\w+)",\s*"([a-z ]+)",?\s*\)')
    twins = re.compile(r'@twin_of\(\s*(\w+),\s*"([a-z ]+)"(?:,\s*"(\w+)")?,?\s*\)')
    sources = [path.read_text() for path in SOURCES.glob("*.py")]
    found = dict(pair for source in sources for pair in calls.findall(source))
    of_twins = [match for source in sources for match in twins.findall(source)]
    return found | {name or reference: kinds for reference, kinds, name in of_twins}


def test_python_and_c_declare_the_same_parameters() -> None:
    assert declared_in_c()
    assert declared_in_python() == declared_in_c()


def test_each_twin_is_a_kernel_and_is_held_to_its_reference() -> None:
    assert all(callable(getattr(kernels, name)) for name in calls.TWINS)
    assert set(PAIRS) == set(calls.TWINS)


@needs_library
def test_arrays_of_any_layout_are_taken() -> None:
    data = np.arange(100, dtype=np.uint8)
    starts, ends = ints([0, 10, 30]), ints([5, 20, 31])
    found = [*range(5), *range(10, 20), 30]
    strided = np.repeat(starts, 2)[::2], np.repeat(ends, 2)[::2]
    moved = np.concatenate(([0], starts.view(np.uint8))).astype(np.uint8)[1:].view(np.int64)
    narrow = starts.astype(np.int32), ends.astype(np.int32)
    assert not strided[0].flags.c_contiguous
    assert not moved.flags.aligned
    for begins, stops in ((starts, ends), strided, (moved, ends), narrow):
        assert kernels.gather(data, begins, stops).tolist() == found
    assert kernels.gather(np.repeat(data, 2)[::2], starts, ends).tolist() == found
    pages = np.asfortranarray([[2, 16, 1], [2, 16, 1]])
    opened = kernels.open_chunks(
        np.array([16, 16], np.uint16).view(np.uint8), np.zeros(32, np.uint8), pages, 2, [2]
    )
    assert opened[0].tolist() == [1, 1]


@needs_library
def test_the_numpy_kernel_says_what_is_damaged() -> None:
    with pytest.raises(CorruptFile, match="segments of a buffer overlap") as caught:
        kernels.gather(np.zeros(4, np.uint8), ints([0, 1]), ints([2, 3]))
    assert caught.value.__context__ is None


def test_a_twin_that_refuses_what_numpy_takes_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TWINS", {})

    @calls.twin_of(segments.gather, "bytes ints ints number out")
    def gather(*_: Any) -> Any:
        raise calls.Damaged

    with pytest.raises(AssertionError, match="gather: C refuses what NumPy takes"):
        gather(np.zeros(4, np.uint8), ints([0]), ints([2]))
