"""The write-ahead log beside a table: which rows of it are not in the table yet.

Writers of a shard keep rows in memory and in a log, and from time to time flush them as a
*generation*: a small Lance table below `_mem_wal/<shard>/`. Later a generation is merged into the
table, and the version that does so says up to which one it holds. A manifest of the shard, of which
each change makes a new file, lists the generations. The entries of the log itself are not read.

Format page: MemTable and WAL (`docs/src/format/table/mem_wal.md`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from google.protobuf.message import DecodeError

from lancefs.errors import CorruptFile, locating
from lancefs.proto import table_pb2
from lancefs.storage import File, Store, read_all
from lancefs.table.base_paths import TableFiles
from lancefs.table.indices import MEM_WAL, Index
from lancefs.table.messages import uuid_text
from lancefs.threads import in_threads

DIRECTORY = "_mem_wal"
# Shards that are listed at the same time.
_READERS = 8

# Versions are written from the lowest bit on, which spreads the names over the store.
_NAME = re.compile(r"([01]{64})\.binpb")


@dataclass(frozen=True, slots=True)
class Generation:
    """Rows that were flushed together.

    Attributes:
        shard: The id of the shard that they belong to; a key is in one shard only.
        number: Counts up from 1 in a shard; the higher wins.
        path: Of its table, relative to the directory of the table or branch.
        rows: As they were written, those included that others of the same generation replace; None
            where the writer did not say.
    """

    shard: str
    number: int
    path: str
    rows: int | None


def read_generations(store: Store) -> list[Generation]:
    """Read which generations the shards of a table list, by shard and number.

    A listing, one more for each shard, and one round of reads.

    Args:
        store: The directory of the table, or of the branch.

    Raises:
        CorruptFile: The manifest of a shard is damaged.
        ReadFailed: The store refused or failed.
    """
    store.refresh(DIRECTORY)
    shards = sorted(name for name in store.names(DIRECTORY) if _is_id(name))
    found = in_threads(lambda shard: _newest(store, shard), shards, _READERS, "lancefs-shards")
    newest = {shard: one for shard, one in zip(shards, found, strict=True) if one is not None}
    data = read_all([(file, [(0, file.size)]) for _, file in newest.values()])
    generations: list[Generation] = []
    for (shard, (version, file)), (manifest,) in zip(newest.items(), data, strict=True):
        with locating(file.url):
            generations += _decode(store, shard, version, manifest.tobytes())
    return generations


def unmerged(generations: Iterable[Generation], indices: Sequence[Index]) -> list[Generation]:
    """Leave out the generations that a version of the table holds already.

    Args:
        generations: All that are listed.
        indices: Those of the version, among which the state of the log stands. Where it does not,
            the version has no log, and what lies beside it is of another one.
    """
    states = [index.details for index in indices if index.type == MEM_WAL]
    merged = {
        str(one.get("shard_id")): int(one.get("generation", 0))
        for state in states
        for one in state.get("compacted_sstables", ())
    }
    return [one for one in generations if states and one.number > merged.get(one.shard, 0)]


def fresher_generations(store: Store, indices: Sequence[Index]) -> list[Generation]:
    """List the generations that a version lacks; nothing is listed for one without a log.

    Args:
        store: The directory of the table, or of the branch.
        indices: Those of the version.

    Raises:
        As `read_generations`.
    """
    has_log = any(index.type == MEM_WAL for index in indices)
    return unmerged(read_generations(store), indices) if has_log else []


def _newest(store: Store, shard: str) -> tuple[int, File] | None:
    """Find the newest manifest of a shard; None where its writer has only just made room for it."""
    directory = f"{DIRECTORY}/{shard}/manifest"
    store.refresh(directory)
    newest: tuple[int, File] | None = None
    for name, info in store.entries(directory):
        match = _NAME.fullmatch(name)
        version = 0 if match is None else int(match[1][::-1], 2)
        if match is not None and (newest is None or version > newest[0]):
            size = info.get("size")
            file = store.file(f"{directory}/{name}", size if isinstance(size, int) else None)
            newest = version, file
    return newest


def _decode(store: Store, shard: str, version: int, data: bytes) -> list[Generation]:
    message = table_pb2.ShardManifest()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptFile(f"the manifest of the shard does not decode: {error}") from error
    its_id = uuid_text(message.shard_id.uuid)
    if (message.version, its_id) != (version, shard):
        raise CorruptFile(
            f"version {message.version} of the shard {its_id or 'without an id'} is in the place "
            f"of version {version} of {shard}"
        )
    numbers = {one.generation for one in message.sstables}
    if len(numbers) != len(message.sstables) or 0 in numbers:
        raise CorruptFile("generations are expected to count from 1, each listed once")
    files = TableFiles(store)  # whose paths may not climb out
    return [
        Generation(
            shard=shard,
            number=one.generation,
            path=files.file(f"{DIRECTORY}/{shard}", one.path).path,
            rows=one.num_rows or None,
        )
        for one in sorted(message.sstables, key=lambda one: one.generation)
    ]


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
