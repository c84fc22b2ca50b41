"""A layout cache that is damaged, forged, of others, or on a full disk costs nothing but time."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from leaks import forget_views
from support import fill_disk, warnings_of

from lancefs.errors import ReadFailed
from lancefs.filesystem import LanceFileSystem
from lancefs.storage import private_folder
from lancefs.views.arrow import layout_cache

pytestmark = pytest.mark.timeout(60)
PATH = "versions/1.arrow"
MAGIC = b"lancefs layout 3\n"
UNIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are those of Unix")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t.lance")
    words = [f"v{i % 90}" if i % 9 else None for i in range(3000)]
    columns = {
        "text": [f"{i}" * (i % 5) for i in range(3000)],
        "word": pa.array(words).dictionary_encode(),
        "list": [[i] * (i % 3) for i in range(3000)],
        "number": pa.array(range(3000)),
    }
    lance.write_dataset(pa.table(columns), path, max_rows_per_file=1000)
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def whole(table: str) -> bytes:
    """The bytes of the view without any cache."""
    data: bytes = LanceFileSystem(fo=table, skip_instance_cache=True).cat(PATH)
    forget_views()
    return data


def fresh(table: str, kept: Path) -> LanceFileSystem:
    """Return a filesystem that shares only the layout cache with earlier ones."""
    forget_views()
    return LanceFileSystem(fo=table, layout_cache=str(kept), skip_instance_cache=True)


def only(kept: Path) -> Path:
    (path,) = kept.iterdir()
    return path


def sealed(content: bytes) -> bytes:
    """Return content with the checksum that it should have."""
    return MAGIC + hashlib.sha256(content).digest() + content


def content_of(path: Path) -> bytes:
    return path.read_bytes()[len(MAGIC) + 32 :]


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "a magic alone": lambda _: MAGIC,
    "nothing behind the checksum": lambda _: sealed(b""),
    "a cut length": lambda _: sealed(b"\1\2\3"),
    "a length beyond the end": lambda old: sealed(struct.pack("<Q", 2**63 + 5) + old[8:]),
    "measures that do not decompress": lambda _: sealed(struct.pack("<Q", 5) + b"12345"),
    "a bomb": lambda _: sealed(_packed(zlib.compress(bytes(1 << 26)))),
    "dictionaries cut off": lambda old: sealed(old[:-1]),
    "something behind them": lambda old: sealed(old + b"x"),
    "two trillion values": lambda old: sealed(_with_values(old, 2 << 40, 0)),
    "more nulls than values": lambda old: sealed(_with_values(old, 90, 91)),
    "too many values for the bytes": lambda old: sealed(_with_values(old, 8000, 0)),
    "a version of before": lambda old: b"lancefs layout 2\n" + bytes(32) + old,
}


def _packed(measures: bytes) -> bytes:
    return struct.pack("<Q", len(measures)) + measures


def _with_values(old: bytes, length: int, nulls: int) -> bytes:
    """Return content whose first dictionary says another length."""
    start = 8 + int.from_bytes(old[:8], "little")
    return old[:start] + struct.pack("<QQ", length, nulls) + old[start + 16 :]


@pytest.mark.parametrize("forgery", FORGED)
def test_what_does_not_verify_is_made_anew_with_one_warning(
    forgery: str, table: str, kept: Path, whole: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert fresh(table, kept).cat(PATH) == whole
    path = only(kept)
    sound = path.read_bytes()
    path.write_bytes(FORGED[forgery](content_of(path)))
    assert fresh(table, kept).cat(PATH) == whole
    (said,) = warnings_of(caplog)
    assert path.name in said
    assert "made anew" in said
    assert path.read_bytes() == sound
    caplog.clear()
    assert fresh(table, kept).cat(PATH) == whole
    assert warnings_of(caplog) == []


def test_every_flipped_byte_is_found(table: str, kept: Path, whole: bytes) -> None:
    assert fresh(table, kept).cat(PATH) == whole
    sound = only(kept).read_bytes()
    for position in range(0, len(sound), max(1, len(sound) // 40)):
        damaged = bytearray(sound)
        damaged[position] ^= 0x41
        only(kept).write_bytes(damaged)
        assert fresh(table, kept).cat(PATH) == whole
        assert only(kept).read_bytes() == sound


def _other_measures(old: bytes, change: Callable[[Any], Any]) -> bytes:
    import numpy as np

    length = int.from_bytes(old[:8], "little")
    table = np.frombuffer(zlib.decompress(old[8 : 8 + length]), "<i8").copy()
    return sealed(_packed(zlib.compress(change(table).tobytes())) + old[8 + length :])


def test_a_layout_of_other_values_is_dropped(
    table: str, kept: Path, whole: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert fresh(table, kept).cat(PATH) == whole
    path = only(kept)
    sound = path.read_bytes()
    forged = _other_measures(content_of(path), lambda table: table + (table > 3))
    path.write_bytes(forged)
    with pytest.raises(ReadFailed, match=r"which is removed: open the file anew"):
        fresh(table, kept).cat(PATH)
    assert "not the layout of the values" in warnings_of(caplog)[0]
    assert fresh(table, kept).cat(PATH) == whole
    assert path.read_bytes() == sound


def test_other_null_counts_cost_time_alone(table: str, kept: Path, whole: bytes) -> None:
    """They move nothing in the file, so that the reader was told of nothing that is wrong."""
    assert fresh(table, kept).cat("versions/1/columns/number,word.arrow")
    path = only(kept)
    forged = _other_measures(content_of(path), lambda table: table * 0 + 5)
    sound = path.read_bytes()
    data = fresh(table, kept / "none").cat("versions/1/columns/number,word.arrow")
    path.write_bytes(forged)
    assert fresh(table, kept).cat("versions/1/columns/number,word.arrow") == data
    assert path.read_bytes() == sound


@UNIX
def test_the_cache_is_for_the_user_alone(table: str, tmp_path: Path) -> None:
    kept = tmp_path / "parent" / "kept"
    old = os.umask(0)
    try:
        fresh(table, kept).cat(PATH)
    finally:
        os.umask(old)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert stat.S_IMODE(only(kept).stat().st_mode) == 0o600


@UNIX
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_special_file_in_the_cache_is_replaced(
    kind: str, table: str, kept: Path, whole: bytes, tmp_path: Path
) -> None:
    fresh(table, kept).cat(PATH)
    path, precious = only(kept), tmp_path / "precious"
    sound = path.read_bytes()
    precious.write_bytes(sound)
    path.unlink()
    {"pipe": os.mkfifo, "link": lambda one: one.symlink_to(precious), "folder": Path.mkdir}[kind](
        path
    )
    assert fresh(table, kept).cat(PATH) == whole
    assert precious.read_bytes() == sound
    if kind != "folder":
        assert path.is_file()
        assert not path.is_symlink()
        assert path.read_bytes() == sound


@UNIX
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(
    mode: int, table: str, kept: Path, whole: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    fresh(table, kept).cat(PATH)
    kept.chmod(mode)
    only(kept).write_bytes(b"forged")
    fs = fresh(table, kept)
    assert fs.cat(PATH) == whole
    assert fs.cat("versions/1/columns/text.arrow").startswith(b"ARROW1")
    (said,) = warnings_of(caplog)
    assert "others can write it" in said
    assert only(kept).read_bytes() == b"forged"


@UNIX
def test_files_and_links_of_other_users_are_not_used(
    table: str,
    kept: Path,
    whole: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fresh(table, kept).cat(PATH)
    if os.geteuid() == 0:
        os.chown(kept, 12345, 12345)
    else:
        monkeypatch.setattr(private_folder.os, "geteuid", lambda: os.getuid() + 1)
    assert fresh(table, kept).cat(PATH) == whole
    (said,) = warnings_of(caplog)
    assert "belongs to another user" in said


def test_a_full_disk_costs_time_alone(
    table: str,
    kept: Path,
    whole: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill_disk(monkeypatch)
    fs = fresh(table, kept)
    assert fs.cat(PATH) == whole
    assert fs.cat("versions/1/columns/text.arrow").startswith(b"ARROW1")
    (said,) = warnings_of(caplog)
    assert "No space left on device" in said
    assert list(kept.iterdir()) == []  # nothing unfinished is left


@UNIX
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_costs_time_alone(
    table: str, kept: Path, whole: bytes
) -> None:
    kept.mkdir(mode=0o500)
    assert fresh(table, kept).cat(PATH) == whole


def test_a_layout_that_is_too_large_is_not_kept(
    table: str, kept: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_cache, "_MAX_BYTES", 10)
    assert fresh(table, kept).cat(PATH) == whole
    assert not kept.exists()
