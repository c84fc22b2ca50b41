"""Drawn inputs for the kernels that read the files of a directory."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

CONTENTS = {"a": b"", "bb": b"some bytes", "ä.lance": bytes(range(256)) * 40, "x" * 255: b"last"}
_ODD = ["none", "link", "folder", "..", ".", "a/../a", "a\0", "", "x" * 256]


def make_files(path: Path) -> None:
    """Write files, and things that are none."""
    for name, content in CONTENTS.items():
        (path / name).write_bytes(content)
    (path / "link").symlink_to(path / "bb")
    (path / "folder").mkdir()


def named(*names: str) -> tuple[Any, Any, Any]:
    """Return names as the kernels take them: among other bytes."""
    data, starts, ends = b"?", [], []
    for name in names:
        starts.append(len(data))
        data += name.encode()
        ends.append(len(data))
        data += b"/?"
    return np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(ends, np.int64)


@st.composite
def files_of_a_folder(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `identify_files`; most names are those of files."""
    names = draw(st.lists(st.sampled_from([*CONTENTS]), max_size=5))
    if not draw(st.integers(0, 3)):
        names.insert(draw(st.integers(0, len(names))), draw(st.sampled_from(_ODD)))
    data, starts, ends = named(*names)
    if names and not draw(st.integers(0, 3)):
        bounds = draw(st.sampled_from([starts, ends]))
        bounds[draw(st.integers(0, len(names) - 1))] = draw(st.sampled_from([-1, 0, 1, 1 << 40]))
    return _folder(), data, starts, ends


@st.composite
def files_to_read(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `read_files`; most sizes are those of the files."""
    folder, data, starts, ends = draw(files_of_a_folder())
    sizes = [
        len(CONTENTS.get(bytes(data[max(start, 0) : max(end, 0)]).decode(errors="replace"), b""))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    if sizes and not draw(st.integers(0, 3)):
        sizes[draw(st.integers(0, len(sizes) - 1))] = draw(st.integers(0, 20))
    return folder, data, starts, ends, np.array(sizes, np.int64)


@cache
def _folder() -> int:
    """Return a descriptor of a directory of files, which is kept as long as the process."""
    path = tempfile.TemporaryDirectory(prefix="lancefs-kernels-")
    _KEPT.append(path)
    make_files(Path(path.name))
    return os.open(path.name, os.O_RDONLY)


_KEPT: list[Any] = []
