"""Async consumers: `LanceFileSystem` is not an async filesystem, but works beside those."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fs_tables import ids
from store_doubles import SlowFileSystem

from lancefs.filesystem import LanceFileSystem


@pytest.fixture(params=["local", "async"])
def any_fs(request: pytest.FixtureRequest, shared_table: str) -> LanceFileSystem:
    """The filesystem on a store of either kind."""
    store = SlowFileSystem(0.001) if request.param == "async" else None
    return LanceFileSystem(fo=shared_table, fs=store)


def test_it_reads_while_an_event_loop_runs(any_fs: LanceFileSystem) -> None:
    async def main() -> list[int]:  # as in a notebook
        assert any_fs.info("versions/1.arrow")["size"] > 0
        return ids(any_fs.cat("versions/1.arrow"))

    assert asyncio.run(main()) == list(range(1000))


def test_threads_of_an_event_loop_read_together(any_fs: LanceFileSystem) -> None:
    paths = [f"versions/{n}/columns/{name}.arrow" for n in (1, 2, 3) for name in ("id", "name")]

    async def main() -> list[bytes]:
        return await asyncio.gather(*(asyncio.to_thread(any_fs.cat_file, one) for one in paths))

    assert asyncio.run(main()) == [any_fs.cat_file(path) for path in paths]


def test_it_can_be_wrapped_for_async_consumers(any_fs: LanceFileSystem) -> None:
    module = pytest.importorskip("fsspec.implementations.asyn_wrapper")
    wrapped: Any = module.AsyncFileSystemWrapper(any_fs, asynchronous=True)

    async def main() -> tuple[list[bytes], bytes, list[str]]:
        paths = [f"versions/{number}.arrow" for number in (1, 2, 3)]
        whole = await asyncio.gather(*(wrapped._cat_file(path) for path in paths))
        part = await wrapped._cat_file("versions/1.arrow", start=0, end=6)
        return whole, part, await wrapped._ls("versions/2/columns", detail=False)

    whole, part, names = asyncio.run(main())
    assert whole == [any_fs.cat(f"versions/{number}.arrow") for number in (1, 2, 3)]
    assert part == b"ARROW1"
    assert names == any_fs.ls("versions/2/columns", detail=False)
