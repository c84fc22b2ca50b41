"""The write-ahead log (MemWAL) of a table: its generations that are not merged into the table yet.

Writers of a shard keep new rows in memory and in a log, and flush them from time to time as a
*generation*: a small Lance table below `_mem_wal/<shard>/`. Later a commit merges generations into
the table, and its MemWAL index records the last merged generation of each shard. The manifest of a
shard lists its generations; each change of it is a new file. The entries of the log are not read.

Format page: MemTable and WAL (`docs/src/format/table/mem_wal.md`); messages: `protos/table.proto`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from lancefs.errors import CorruptFile, locating
from lancefs.proto import table_pb2
from lancefs.storage import File, Store, read_all
from lancefs.table.base_paths import TableFiles, check_relative
from lancefs.table.indices import MEM_WAL, Index
from lancefs.table.messages import parse_message, uuid_text
from lancefs.threads import in_threads

DIRECTORY = "_mem_wal"
# Threads that list shards.
_THREADS = 8

# The version in binary, lowest bit first, which spreads the names over the partitions of a store.
_NAME = re.compile(r"([01]{64})\.binpb")


@dataclass(frozen=True, slots=True)
class Generation:
    """Rows of a shard that were flushed together.

    Attributes:
        shard: Id of the shard. All rows of a primary key are in one shard.
        number: Number of the generation, counted from 1 in each shard; rows of a higher number
            replace those of a lower one.
        path: Directory of the generation's table, relative to that of the table or branch.
        rows: Number of rows as written, including rows that later rows of the same generation
            replace; None if the writer recorded none.
    """

    shard: str
    number: int
    path: str
    rows: int | None


def read_generations(store: Store) -> list[Generation]:
    """Read the generations of all shards of a table, ordered by shard and number.

    Takes a listing, another one for each shard, and one round of reads.

    Args:
        store: The directory of the table, or of the branch.

    Raises:
        CorruptFile: The manifest of a shard is damaged.
        ReadFailed: The store refused or failed.
    """
    store.refresh(DIRECTORY)
    shards = sorted(name for name in store.names(DIRECTORY) if _is_uuid(name))
    newest = in_threads(
        lambda shard: _newest_manifest(store, shard), shards, _THREADS, "lancefs-shards"
    )
    manifests = [
        (shard, *manifest)
        for shard, manifest in zip(shards, newest, strict=True)
        if manifest is not None
    ]
    data = read_all([(file, [(0, file.size)]) for _, _, file in manifests])
    generations: list[Generation] = []
    for (shard, version, file), (manifest,) in zip(manifests, data, strict=True):
        with locating(file.url):
            generations += _decode(store, shard, version, manifest.tobytes())
    return generations


def unmerged(generations: Iterable[Generation], indices: Sequence[Index]) -> list[Generation]:
    """Return the generations that are not merged into a version of the table.

    Args:
        generations: All generations of the shards.
        indices: The indices of the version. Without a MemWAL index the version has no log, and the
            generations belong to other versions.
    """
    states = [index.details for index in indices if index.type == MEM_WAL]
    merged = {
        str(last.get("shard_id")): int(last.get("generation", 0))
        for state in states
        for last in state.get("compacted_sstables", ())
    }
    return [
        generation
        for generation in generations
        if states and generation.number > merged.get(generation.shard, 0)
    ]


def fresher_generations(store: Store, indices: Sequence[Index]) -> list[Generation]:
    """Read the generations that are not merged into a version; makes no request without a log.

    Args:
        store: The directory of the table, or of the branch.
        indices: The indices of the version.

    Raises:
        CorruptFile: The manifest of a shard is damaged.
        ReadFailed: The store refused or failed.
    """
    has_log = any(index.type == MEM_WAL for index in indices)
    return unmerged(read_generations(store), indices) if has_log else []


def _newest_manifest(store: Store, shard: str) -> tuple[int, File] | None:
    """Return version and file of a shard's newest manifest; None in a shard that has none yet."""
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
    message = parse_message(table_pb2.ShardManifest(), data, "manifest of the shard")
    shard_id = uuid_text(message.shard_id.uuid)
    if (message.version, shard_id) != (version, shard):
        raise CorruptFile(
            f"version {message.version} of the shard {shard_id or 'without an id'} is in the place "
            f"of version {version} of {shard}"
        )
    numbers = {sstable.generation for sstable in message.sstables}
    if len(numbers) != len(message.sstables) or 0 in numbers:
        raise CorruptFile("generations are expected to count from 1, each listed once")
    for sstable in message.sstables:
        check_relative(sstable.path)
    files = TableFiles(store)
    return [
        Generation(
            shard=shard,
            number=sstable.generation,
            path=files.file(f"{DIRECTORY}/{shard}", sstable.path).path,
            rows=sstable.num_rows or None,
        )
        for sstable in sorted(message.sstables, key=lambda sstable: sstable.generation)
    ]


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
