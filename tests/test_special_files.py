"""What a user gets for a table with pipes, devices, sockets or folders for files: an error at once.

Opening a named pipe waits for a writer that may never come: without the checks, these tests hang
until their timeout.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancefs
from lancefs.cli.main import main
from lancefs.errors import MissingFile, ReadFailed, UnsupportedFeature
from lancefs.filesystem import LanceFileSystem
from lancefs.storage.open_files import LocalFile
from lancefs.table.base_paths import BaseRules

pytestmark = [
    pytest.mark.timeout(30),
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="special files are those of Unix"),
]


def _make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def _make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # as /dev/zero
    except PermissionError:
        pytest.skip("only root may make devices")


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (lambda path: os.mkfifo(path), "a named pipe; a regular file was expected"),
    "socket": (_make_socket, "a socket; a regular file was expected"),
    "folder": (lambda path: path.mkdir(), "a directory; a regular file was expected"),
    "device": (_make_device, "a character device; a regular file was expected"),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def replace(path: Path, kind: str) -> str:
    """Replace a file by a special one; return what an error says of it."""
    path.unlink()
    make, said = KINDS[kind]
    make(path)
    return said


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(100)}), str(path)).delete("a < 3")
    lance.dataset(str(path)).tags.create("prod", 1)
    return path


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@kinds
def test_a_special_file_as_data_file_is_refused_at_every_door(table: Path, kind: str) -> None:
    said = replace(only(table / "data"), kind)
    dataset = lancefs.open(table)
    for read in (dataset.to_table, lambda: dataset.head(3), lambda: dataset.take([1])):
        with pytest.raises(ReadFailed, match=said):
            read()
    with pytest.raises(ReadFailed, match=said):
        LanceFileSystem(fo=str(table)).cat("latest.arrow")
    assert main(["head", str(table)]) == 3


def test_a_link_to_a_device_is_refused_even_where_links_are_followed(table: Path) -> None:
    data = only(table / "data")
    data.unlink()
    data.symlink_to("/dev/zero")
    with pytest.raises(UnsupportedFeature, match="a symbolic link leads to /dev/zero"):
        lancefs.open(table).to_table()
    with pytest.raises(ReadFailed, match="a character device; a regular file was expected"):
        lancefs.open(table, base_rules=BaseRules(follow="any")).to_table()


@kinds
def test_a_special_file_as_manifest_is_refused(table: Path, kind: str) -> None:
    said = replace(min((table / "_versions").glob("*.manifest")), kind)
    if kind == "folder":  # a listing tells it from a file
        assert lancefs.open(table).version == 1
        return
    with pytest.raises(ReadFailed, match=said):
        lancefs.open(table)
    assert lancefs.open(table, version=1).count_rows() == 100


@kinds
def test_a_special_file_as_deletion_file_is_refused(table: Path, kind: str) -> None:
    said = replace(only(table / "_deletions"), kind)
    with pytest.raises(ReadFailed, match=said):
        lancefs.open(table).to_table()


@kinds
def test_a_special_file_as_tag_is_refused(table: Path, kind: str) -> None:
    said = replace(only(table / "_refs" / "tags"), kind)
    with pytest.raises(ReadFailed, match=said):
        lancefs.open(table, tag="prod")


@kinds
def test_a_special_file_as_transaction_does_not_stop_the_history(table: Path, kind: str) -> None:
    for path in list((table / "_transactions").iterdir()):
        replace(path, kind)
    assert len(lancefs.open(table).history()) == 2


def test_a_file_of_the_kernel_is_no_table(table: Path) -> None:
    if not os.path.exists("/proc/self/environ"):
        pytest.skip("there is no /proc here")
    data = only(table / "data")
    for special in ("/proc/self/environ", "/proc/self/mem", "/proc/kcore"):
        data.unlink()
        data.symlink_to(special)
        with pytest.raises(lancefs.errors.LanceError, match=data.name):
            lancefs.open(table).to_table()


def test_a_name_that_no_file_can_have_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ReadFailed, match="null"):
        LocalFile(f"{tmp_path}/a\0b", maps=True).read([(0, 1)])
    with pytest.raises(MissingFile):
        LocalFile(f"{tmp_path}/nothing", maps=True).read([(0, 1)])


def test_a_refused_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadFailed):
        LocalFile(str(tmp_path / "pipe"), maps=True).read([(0, 1)])
    # A pipe that nobody reads refuses a writer who does not wait.
    with pytest.raises(OSError, match="No such device or address"):
        os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK)
