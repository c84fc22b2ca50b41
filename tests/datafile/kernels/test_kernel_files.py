"""Whole files of a directory are read by a kernel, or refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_inputs import CONTENTS, files_to_read, make_files, named
from hypothesis import given, settings
from kernel_inputs import needs_library
from support import examples

from lancefs.datafile.kernels import identify_files, read_files

pytestmark = needs_library


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    make_files(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@settings(max_examples=examples(300))
@given(files_to_read())
def test_drawn_files_are_read_or_refused(arguments: tuple[Any, ...]) -> None:
    """All files are read, or none where a name or a size is not that of a file."""
    folder, data, starts, ends, sizes = arguments
    contents = {name.encode(): content for name, content in CONTENTS.items()}
    names = [
        data[start:end].tobytes() if 0 <= start < end <= len(data) else b""
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    wanted = [contents.get(name) for name in names]
    are_files = all(one is not None for one in wanted)
    identities = identify_files(folder, data, starts, ends)
    assert (identities is not None) == are_files
    found = read_files(folder, data, starts, ends, sizes)
    lengths = [len(one or b"") for one in wanted]
    assert (found is not None) == (are_files and lengths == sizes.tolist())
    if found is not None and identities is not None:
        assert found[0].tobytes() == b"".join(one or b"" for one in wanted)
        assert found[1].tolist() == identities.tolist()


def test_files_are_read_one_after_the_other(folder: int, tmp_path: Path) -> None:
    sizes = np.array([len(content) for content in CONTENTS.values()])
    memory, identities = read_files(folder, *named(*CONTENTS), sizes)
    assert memory.tobytes() == b"".join(CONTENTS.values())
    assert identities.tolist() == identify_files(folder, *named(*CONTENTS)).tolist()
    for name, numbers in zip(CONTENTS, identities.tolist(), strict=True):
        status = (tmp_path / name).stat()
        assert numbers[2:] == [status.st_size, status.st_mtime_ns]


@pytest.mark.parametrize("name", ["none", "link", "folder", "pipe", "..", ".", "a/../a", "a\0", ""])
def test_what_is_no_file_of_the_folder_is_refused(folder: int, name: str) -> None:
    names = named("bb", name, "a")
    assert read_files(folder, *names, np.array([10, 0, 0])) is None
    assert identify_files(folder, *names) is None


@pytest.mark.parametrize("size", [0, 9, 11])
def test_a_file_of_another_size_is_refused(folder: int, size: int) -> None:
    assert read_files(folder, *named("a", "bb"), np.array([0, size])) is None


@pytest.mark.parametrize("bounds", [(-1, 1), (1, 1), (2, 1), (0, 10_000), (10_000, 10_001)])
def test_a_name_outside_of_the_bytes_is_refused(folder: int, bounds: tuple[int, int]) -> None:
    data, *_ = named("a")
    start, end = (np.array([bound], np.int64) for bound in bounds)
    assert read_files(folder, data, start, end, np.array([0])) is None
    assert identify_files(folder, data, start, end) is None


def test_a_name_that_is_too_long_is_refused(folder: int) -> None:
    assert identify_files(folder, *named("x" * 256)) is None


def test_no_files_are_no_bytes(folder: int) -> None:
    memory, identities = read_files(folder, *named(), np.empty(0, np.int64))
    assert (len(memory), identities.shape) == (0, (0, 4))
    assert identify_files(folder, *named()).shape == (0, 4)
