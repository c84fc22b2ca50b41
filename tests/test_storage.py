"""Byte ranges: from local files and any fsspec store, few requests, clear errors."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st
from store_doubles import CountingFileSystem

from lancefs.errors import CorruptFile, MissingFile, ReadFailed
from lancefs.storage import Reads, Store, read_all, run, store, together, with_prefetch
from lancefs.storage import file as storage
from lancefs.storage.byte_ranges import ByteRange, coalesce
from lancefs.storage.filesystems import with_mapping

DATA = bytes(range(256)) * 4


class FailingFileSystem(CountingFileSystem):
    """A store that counts requests, and raises `fail` if a test sets it."""

    fail: Exception | None = None

    def cat_file(self, path, start=None, end=None, **kwargs):  # type: ignore[no-untyped-def]
        data = super().cat_file(path, start, end, **kwargs)
        if self.fail:
            raise self.fail
        return data


@pytest.fixture
def remote() -> Store:
    fs = FailingFileSystem()
    fs.pipe("/dir/a", DATA)
    fs.pipe("/dir/b", DATA[::-1])
    return Store(fs, "/dir")


@pytest.fixture
def local(tmp_path: Path) -> Store:
    (tmp_path / "a").write_bytes(DATA)
    (tmp_path / "empty").write_bytes(b"")
    return Store(LocalFileSystem(), str(tmp_path))


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_ranges_are_the_bytes_of_the_file(kind: str, request: pytest.FixtureRequest) -> None:
    store: Store = request.getfixturevalue(kind)
    file = store.file("a")
    got = file.read([(0, 4), (1000, 1024), (5, 5), (2, 10)])
    assert [data.tobytes() for data in got] == [DATA[:4], DATA[1000:], b"", DATA[2:10]]
    assert file.size == len(DATA)
    assert file.read_whole().tobytes() == DATA
    start, tail = file.read_tail(24)
    expected = 1000 if store.is_local else 0  # far away, a second request would take as long
    assert (start, tail.tobytes()) == (expected, DATA[expected:])


def test_local_bytes_are_mapped_and_not_copied(local: Store) -> None:
    first, second = local.file("a").read([(0, 8)])[0], local.file("empty").read_whole()
    assert not first.flags.owndata
    assert not first.flags.writeable
    assert len(second) == 0


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_errors_name_the_file(kind: str, request: pytest.FixtureRequest) -> None:
    store: Store = request.getfixturevalue(kind)
    with pytest.raises(MissingFile, match=r"nothing.*gone"):
        store.file("nothing").read([(0, 1)])
    with pytest.raises(CorruptFile, match=r"/a: .*(1024|1025)"):
        store.file("a").read([(1000, 1025)])
    with pytest.raises(CorruptFile, match="/a: "):
        store.file("a", 1024).read([(9, 3)])


def test_a_request_that_fails_names_the_file_and_the_range(remote: Store) -> None:
    remote.fs.fail = PermissionError("no")
    with pytest.raises(ReadFailed, match=r"counting:///dir/a: bytes 0–4: no"):
        remote.file("a").read([(0, 4)])


def test_neighbouring_ranges_are_coalesced(remote: Store) -> None:
    a, b = remote.file("a", 1024), remote.file("b", 1024)
    got = read_all([(a, [(0, 10), (500, 510)]), (b, [(0, 1)]), (a, [(5, 20)])])
    assert [[data.tobytes() for data in file] for file in got] == [
        [DATA[:10], DATA[500:510]],
        [DATA[::-1][:1]],
        [DATA[5:20]],
    ]
    assert sorted(remote.fs.requests) == [("/dir/a", 0, 510), ("/dir/b", 0, 1)]


def test_large_ranges_are_split(remote: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LARGEST_REQUEST", 300)
    assert remote.file("a", 1024).read([(10, 1000)])[0].tobytes() == DATA[10:1000]
    assert [end - start for _, start, end in remote.fs.requests] == [300, 300, 300, 90]


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(0, 60)), max_size=30),
    st.integers(0, 100),
)
def test_coalesced_ranges_cover_all_ranges_and_do_not_overlap(
    spans: list[tuple[int, int]], gap: int
) -> None:
    ranges = [(start, start + length) for start, length in spans]
    merged = coalesce(ranges, gap)
    for start, end in ranges:
        assert start == end or any(a <= start and end <= b for a, b in merged)
    assert all(b + gap < c for (_, b), (c, _) in pairwise(merged))


def test_decoders_share_rounds_of_requests(remote: Store) -> None:
    def follow(position: int, hops: int) -> Reads[int]:
        for _ in range(hops):
            (data,) = yield [(position, position + 1)]
            position = int(data[0]) + 1
        return position

    file = remote.file("a", 1024)
    assert run([(file, follow(0, 3)), (file, follow(7, 1)), (file, follow(3, 0))]) == [3, 8, 3]
    assert len(remote.fs.requests) == 3


def test_together_joins_decoders_into_one() -> None:
    def ask(first: int, rounds: int) -> Reads[list[int]]:
        seen: list[int] = []
        for step in range(rounds):
            got = yield [(first + step, first + step + 1)] * (step + 1)
            seen.extend(int(data[0]) for data in got)
        return seen

    steps = together([ask(0, 2), ask(100, 0), ask(50, 1)])
    first = next(steps)
    assert list(first) == [(0, 1), (50, 51)]
    second = steps.send([np.array([start], np.uint8) for start, _ in first])
    assert list(second) == [(1, 2), (1, 2)]
    with pytest.raises(StopIteration) as stopped:
        steps.send([np.array([start], np.uint8) for start, _ in second])
    assert stopped.value.value == [[0, 1, 1], [], [50]]


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=4), st.data())
def test_what_is_likely_to_be_needed_changes_rounds_and_no_result(
    guessed: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Bytes are asked for twice by nobody, and in no round of their own where all are there."""
    likely = coalesce([(start, start + length) for start, length in guessed], 0)
    spans = st.tuples(st.integers(0, 100), st.integers(0, 60))
    rounds = data.draw(st.lists(st.lists(spans, max_size=3), min_size=1, max_size=4))
    wanted = [[(start, start + length) for start, length in one] for one in rounds]

    def step() -> Reads[list[bytes]]:
        got = []
        for ranges in wanted:
            got += [each.tobytes() for each in (yield ranges)]
        return got

    asked: list[Sequence[ByteRange]] = []
    reads = with_prefetch(step(), likely)
    found, ranges = None, next(reads)
    while found is None:
        asked.append(ranges)
        try:
            ranges = reads.send([np.frombuffer(DATA[start:end], np.uint8) for start, end in ranges])
        except StopIteration as stop:
            found = stop.value
    assert found == [DATA[start:end] for one in wanted for start, end in one]
    assert asked[0] == [*wanted[0], *likely]
    held = {at for start, end in likely for at in range(start, end)}
    assert all(ranges for ranges in asked[1:])
    assert not any(held.intersection(range(*one)) for ranges in asked[1:] for one in ranges)


def test_directories_are_listed(local: Store, remote: Store) -> None:
    assert sorted(local.names()) == ["a", "empty"]
    assert sorted(remote.names()) == ["a", "b"]
    assert local.names("nothing") == []


def test_urls_are_spelled_as_users_write_them(local: Store, remote: Store) -> None:
    assert local.file("a").url == f"{local.root}/a"
    assert remote.file("a").url == "counting:///dir/a"


def test_bytes_of_a_file_with_a_stamp_are_cached(remote: Store) -> None:
    for stamp in ("one", "one", "two", None, None):
        file = remote.file("a", 1024, stamp)
        assert file.read_tail(24)[1].tobytes() == DATA
        file = remote.file("a", 1024, stamp)  # one that has no end of the file in memory
        assert file.read_whole().tobytes() == DATA
    assert len(remote.fs.requests) == 2 * 4
    storage.forget(remote.fs)
    remote.file("a", 1024, "one").read_whole()
    assert len(remote.fs.requests) == 9


def test_another_filesystem_of_the_same_name_holds_other_files(remote: Store) -> None:
    remote.file("a", 1024, "same").read_whole()
    other = Store(CountingFileSystem(), "/dir")
    other.fs.pipe("/dir/a", DATA[::-1])
    assert other.file("a", 1024, "same").read_whole().tobytes() == DATA[::-1]
    assert len(other.fs.requests) == 1


def test_cached_bytes_stay_within_the_budget(
    remote: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage._CACHE, "budget", 2000)  # one of these files
    for name in ("a", "b", "b", "a"):
        remote.file(name, 1024, "unique").read_whole()
    assert [path for path, _, _ in remote.fs.requests] == ["/dir/a", "/dir/b", "/dir/a"]


@pytest.mark.parametrize("size", [1000, storage.TAIL + storage.GAP])
def test_a_file_that_is_little_longer_than_its_end_is_read_once(remote: Store, size: int) -> None:
    data = bytes(np.random.default_rng(1).integers(0, 256, size, np.uint8))
    remote.fs.pipe_file(remote.full("small"), data)
    file, fs = remote.file("small", size, "one"), remote.fs
    fs.requests.clear()
    file.read_tail()
    ranges = [(0, 10), (size - 10, size), (size // 2, size // 2 + 5)]
    assert [part.tobytes() for part in file.read(ranges)] == [data[a:b] for a, b in ranges]
    assert len(fs.requests) == 1


def test_the_end_of_a_file_is_not_asked_for_again(remote: Store) -> None:
    size = 3 * storage.TAIL
    data = bytes(np.random.default_rng(2).integers(0, 256, size, np.uint8))
    remote.fs.pipe_file(remote.full("large"), data)
    file, fs = remote.file("large", size, "one"), remote.fs
    start, _ = file.read_tail()
    ranges = [(start + 5, start + 9), (7, 9), (start - 3, start + 3), (start, size), (4, 4)]
    fs.requests.clear()
    assert [part.tobytes() for part in file.read(ranges)] == [data[a:b] for a, b in ranges]
    path = remote.full("large")
    assert fs.requests == [(path, 7, 9), (path, start - 3, start + 3)]
    assert file.read([(start, size)])[0].tobytes() == data[start:]
    assert len(fs.requests) == 2
    storage._CACHE.clear()
    assert file.read(ranges[:1])[0].tobytes() == data[start + 5 : start + 9]
    assert len(fs.requests) == 3


def test_a_small_file_of_unknown_size_takes_one_request(remote: Store) -> None:
    assert remote.file("a").read_whole().tobytes() == DATA
    assert len(remote.fs.requests) == 1
    remote.fs.pipe("/dir/empty", b"")
    assert remote.file("empty").read_whole().tobytes() == b""


def test_a_large_file_of_unknown_size_is_read_completely(
    remote: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SMALL", 100)
    assert remote.file("a").read_whole().tobytes() == DATA


def test_only_failed_ranges_are_retried(remote: Store) -> None:
    failing = iter([OSError(errno.EBUSY, "busy"), None, TimeoutError(), None])
    real = remote.fs.cat_file

    def sometimes(path, start=None, end=None, **kwargs):  # type: ignore[no-untyped-def]
        remote.fs.fail = next(failing, None)
        return real(path, start, end, **kwargs)

    remote.fs.cat_file = sometimes
    files = [remote.file(name, 1024) for name in ("a", "b")]
    got = read_all([(file, [(0, 4)]) for file in files])
    assert [parts[0].tobytes() for parts in got] == [DATA[:4], DATA[::-1][:4]]
    assert [path for path, _, _ in remote.fs.requests] == ["/dir/a", "/dir/b", "/dir/a", "/dir/a"]


def test_only_local_files_are_told_not_to_be_mapped() -> None:
    for local in ("/t.lance", "t.lance", "file:///t.lance"):
        assert with_mapping(local, {}, maps=False) == {"mmap": False}
    for other in ("s3://b/t.lance", "https://host/t.lance", "simplecache::file:///t.lance"):
        assert with_mapping(other, {"key": 1}, maps=False) == {"key": 1}
    assert with_mapping("/t.lance", {}, maps=True) == {}
