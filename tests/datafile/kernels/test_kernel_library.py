"""Which kernels are in use, and how that can be chosen."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_inputs import needs_library
from support import REPOSITORY

import lancefs
from lancefs.datafile.kernels import library


def program(**environment: str) -> subprocess.CompletedProcess[str]:
    code = "import lancefs; print(lancefs.kernels_in_use().name)"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**environment},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def test_numpy_kernels_can_be_asked_for() -> None:
    done = program(LANCEFS_KERNELS="numpy")
    assert done.stdout.strip() == "numpy"
    assert not done.stderr


def test_a_library_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    done = program(LANCEFS_KERNELS=str(tmp_path / "none.so"))
    assert done.returncode
    assert "ImportError" in done.stderr
    assert "LANCEFS_KERNELS" in done.stderr


@needs_library
def test_the_report_names_the_library() -> None:
    report = lancefs.kernels_in_use()
    assert report.name == "compiled"
    assert Path(report.reason).exists()


def test_without_a_library_numpy_decodes_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("LANCEFS_KERNELS", raising=False)
    monkeypatch.setattr(library, "_built", lambda: None)
    with caplog.at_level(logging.WARNING, "lancefs"):
        found, report = library._load()
    assert found is None
    assert report.name == "numpy"
    assert "C compiler" in report.reason
    assert "LANCEFS_KERNELS=numpy" in caplog.text


@needs_library
def test_a_library_of_another_release_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("LANCEFS_KERNELS", raising=False)
    monkeypatch.setattr(library, "INTERFACE", library.INTERFACE + 1)
    with caplog.at_level(logging.WARNING, "lancefs"):
        assert library._load()[0] is None
    assert "another release" in caplog.text
