"""What tests share: the corpus of real tables, and tables that a test may damage."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from fsspec.implementations.local import LocalFileSystem

from lancefs.proto import table_pb2
from lancefs.storage import Store, private_folder
from lancefs.table.refs import Ref

REPOSITORY = Path(__file__).resolve().parent.parent
ORDERS = str(REPOSITORY / "examples" / "data" / "orders.lance")  # the table of the demo
# The first line of what `python -c` runs: without a file, DuckDB takes it for a person at a prompt,
# and queries that last longer than two seconds print how far they are.
NOT_INTERACTIVE = "__file__ = 'program.py'\n"
CORPUS = Path(os.environ.get("LANCEFS_CORPUS", REPOSITORY.parent / "shared" / "corpus"))
_NO_CORPUS = f"no corpus of real tables at {CORPUS}"
# Cases whose writers, the first ones, recorded no rows: the manifest does not count them.
UNCOUNTED = ("-w0.4.21", "hist_with-deletions-w0.7.5")

# Changes what scans are tuned by: the fixture `tuned`.
Tune = Callable[..., None]


def examples(number: int) -> int:
    """How many examples a test draws: so many in `make test-slow`, a sixth in `make test`."""
    return number if "LANCEFS_ALL_EXAMPLES" in os.environ else max(number // 6, min(number, 8))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings that were logged."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have folders that nobody else can write take no more files."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(private_folder.os, "replace", full)


@dataclass(frozen=True)
class CorpusRef:
    """A version of a corpus table, and what is known of it."""

    case: CorpusCase
    name: str  # as case.json spells it: `3`, `prod`, `exp@3`
    info: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.case.name}@{self.name}"

    @property
    def ref(self) -> Ref:
        """The version, as lancefs names it."""
        if self.info.get("tag"):
            return Ref(tag=self.name)
        if self.info.get("branch"):
            return Ref(version=self.info["version"], branch=self.info["branch"])
        return Ref(version=int(self.name))

    def expected(self, kind: str = "") -> Path | None:
        """The file with the expected rows, or with their `rowmeta` or `blobs`, if there is one."""
        suffix = f".{kind}.arrow" if kind else ".arrow"
        path = self.case.directory / "expected" / (self.name.replace("/", "%2F") + suffix)
        return path if path.exists() else None


@dataclass(frozen=True)
class CorpusCase:
    """A table of the corpus."""

    name: str
    info: dict[str, Any]

    def __str__(self) -> str:
        return self.name

    @property
    def directory(self) -> Path:
        return CORPUS / self.name

    @property
    def refs(self) -> list[CorpusRef]:
        return [CorpusRef(self, name, info) for name, info in self.info["versions"].items()]

    def table(self) -> str:
        """The table's path, after its manifests' absolute paths were made to lead to the corpus."""
        if "relocate" in self.info:
            _link(Path(self.info["relocate"]), self.directory)
        return str(self.directory / "table.lance")

    def store(self) -> Store:
        return local_store(self.table())


# Tables, or versions of tables.
CorpusItem = TypeVar("CorpusItem", "CorpusCase", CorpusRef)
_MOST_OF_A_GROUP = 25


def corpus_cases(prefix: str = "") -> list[CorpusCase]:
    """The tables of the corpus whose names start with a prefix; none where there is no corpus."""
    return [case for case in _all_cases() if case.name.startswith(prefix)]


def corpus_case(name: str) -> CorpusCase:
    """One table of the corpus; where there is no corpus, the test that asks for it is skipped."""
    if not _all_cases():
        pytest.skip(_NO_CORPUS)
    return next(case for case in _all_cases() if case.name == name)


def corpus_refs(prefix: str = "") -> Iterator[CorpusRef]:
    """Every version of those tables."""
    for case in corpus_cases(prefix):
        yield from case.refs


def of_each_case(check: Callable[[CorpusCase], None]) -> Callable[..., None]:
    """Make a check of one table of the corpus a test of all of them; see `of_each`."""
    return of_each(corpus_cases())(check)


def of_each(
    items: Iterable[CorpusItem],
) -> Callable[[Callable[[CorpusItem], None]], Callable[..., None]]:
    """Make a check of one item a test of some, in groups, which tells each item that fails.

    For checks of milliseconds: pytest itself takes as long for each test, and once more for each
    that a worker reports.

    Args:
        items: Tables of the corpus, or versions of them.
    """
    groups: dict[str, list[CorpusItem]] = {}
    for item in items:
        name = (item if isinstance(item, CorpusCase) else item.case).name
        what, writer = name.partition("_")[0], name.rpartition("-")[2]
        groups.setdefault(f"{what} {writer}", []).append(item)
    parts = {
        f"{name} {start}": group[start : start + _MOST_OF_A_GROUP]
        for name, group in groups.items()
        for start in range(0, len(group), _MOST_OF_A_GROUP)
    }

    def decorate(check: Callable[[CorpusItem], None]) -> Callable[..., None]:
        def test(items: list[CorpusItem]) -> None:
            errors = []
            for item in items:
                try:
                    check(item)
                except Exception as error:
                    error.add_note(f"of {item}")
                    errors.append(error)
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(items)}", errors)

        test.__name__, test.__module__ = check.__name__, check.__module__
        of_parts = pytest.mark.parametrize("items", parts.values(), ids=parts.keys())
        return needs_corpus(of_parts(test))

    return decorate


def copy_table(case: CorpusCase, into: Path) -> Path:
    """Copy a table of the corpus to where a test may change it."""
    target = into / "table.lance"
    shutil.copytree(case.directory / "table.lance", target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def local_store(path: str | Path) -> Store:
    return Store(LocalFileSystem(), str(path))


def frame(message: table_pb2.Manifest, before: bytes = b"") -> bytes:
    """The bytes of a manifest file.

    Args:
        message: The manifest.
        before: Sections that stand before it.
    """
    data = message.SerializeToString()
    footer = struct.pack("<QHH4s", len(before), 0, 2, b"LANC")
    return before + struct.pack("<I", len(data)) + data + footer


def rewrite_manifest(table: Path, change: Callable[[table_pb2.Manifest], object]) -> None:
    """Change the newest manifest of a table, in place."""
    file, before, message = _newest_manifest(table)
    change(message)
    file.write_bytes(frame(message, before))


def rewrite_index_section(table: Path, change: Callable[[table_pb2.IndexSection], object]) -> None:
    """Change the index section of the newest manifest of a table, in place."""
    file, before, message = _newest_manifest(table)
    at = message.index_section
    length = int.from_bytes(before[at : at + 4], "little")
    section = table_pb2.IndexSection.FromString(before[at + 4 : at + 4 + length])
    change(section)
    message.index_section = 4  # 0 stands for none
    message.ClearField("transaction_section")
    changed = section.SerializeToString()
    file.write_bytes(frame(message, bytes(4) + len(changed).to_bytes(4, "little") + changed))


def _newest_manifest(table: Path) -> tuple[Path, bytes, table_pb2.Manifest]:
    """Return the file of the newest manifest, the bytes before its message, and the message."""
    file = sorted((table / "_versions").iterdir())[0]
    data = file.read_bytes()
    position = int.from_bytes(data[-16:-8], "little")
    return file, data[:position], table_pb2.Manifest.FromString(data[position + 4 : -16])


def lead_elsewhere(table: Path, base: str | None = None, path: str | None = None) -> None:
    """Rewrite the newest manifest of a table, as a stranger may.

    Args:
        table: The directory of the table.
        base: A base path, a plain directory, that all data files then lie in; None for none.
        path: The path of all data files then; None for the paths as they are.
    """

    def change(message: table_pb2.Manifest) -> None:
        if base is not None:
            message.reader_feature_flags |= 16
            message.base_paths.add(id=1, path=base, is_dataset_root=False)
        for fragment in message.fragments:
            for file in fragment.files:
                if base is not None:
                    file.base_id = 1
                if path is not None:
                    file.path = path

    rewrite_manifest(table, change)


def run_python(program: str, *arguments: str) -> str:
    """What a program writes that a new process runs."""
    command = [sys.executable, "-c", NOT_INTERACTIVE + program, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(program: str) -> set[str]:
    """The modules that a new process has imported once it has run a program."""
    output = run_python(f"{program}\nimport sys; print('\\0', *sys.modules)")
    return set(output.rpartition("\0")[2].split())


@cache
def _all_cases() -> tuple[CorpusCase, ...]:
    found = sorted(CORPUS.glob("*/case.json"))
    return tuple(CorpusCase(path.parent.name, json.loads(path.read_text())) for path in found)


needs_corpus = pytest.mark.skipif(not _all_cases(), reason=_NO_CORPUS)


def _link(link: Path, target: Path) -> None:
    """Make a symbolic link to a case of the corpus.

    Another checkout may have made it before us. What it leads to is left alone, as long as it is
    that case; a link that leads nowhere, or elsewhere, is replaced, and nothing but a link is.
    """
    if not str(link).startswith("/tmp/"):
        raise ValueError(f"the corpus asks for a link outside of /tmp: {link}")
    if (link / "case.json").exists():
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists() and not link.is_symlink():
        raise FileExistsError(f"{link} is in the way of a link to {target}: remove it")
    beside = link.with_name(f"{link.name}.{os.getpid()}")
    beside.symlink_to(target)
    beside.replace(link)
