"""A process that reads bombs; see `forking`.

For each way to read one, it says what came of it and how much memory it took.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pyarrow as pa

import lancefs
from damage.forking import serve
from lancefs.errors import LanceError

_ADDRESS_SPACE = 6 << 30


def _head(path: str) -> object:
    return lancefs.open(path).head(1).num_rows


def _batches(path: str) -> object:
    dataset = lancefs.open(path)
    batches = dataset.to_batches()
    found = sum(batch.num_rows for batch in islice(batches, 20))
    batches.close()  # type: ignore[attr-defined]  # a generator
    return found


def _take(path: str) -> object:
    dataset = lancefs.open(path)
    return dataset.take([0, dataset.count_rows() - 1]).num_rows


def _row_ids(path: str) -> object:
    batches = lancefs.open(path).to_batches(["_rowid"], filter="_rowid BETWEEN 5 AND 4294967290")
    return next((batch.num_rows for batch in batches), 0)


def _kept(path: str) -> object:
    return lancefs.open(path, max_memory=64 << 20).to_table().num_rows


def _indices(path: str) -> object:
    return len(lancefs.open(path).indices())


def _by_index(path: str) -> object:
    dataset = lancefs.open(path)
    if not dataset.indices():
        return 0  # filters read what the other ways read
    if dataset.schema.field(0).type != pa.string():
        return dataset.count_rows("a = 0")
    return dataset.count_rows("contains(a, 'aaa')") + dataset.search("word", columns=["a"]).num_rows


def _view(path: str) -> object:
    with lancefs.LanceFileSystem().open(f"{path}/latest.arrow") as file:
        return len(file.read(1 << 16))


READS: dict[str, Callable[[str], object]] = {
    read.__name__[1:]: read for read in (_head, _batches, _take, _row_ids, _kept, _indices)
}
READS |= {read.__name__[1:]: read for read in (_by_index, _view)}


def read_bomb(path: str) -> None:
    """Read a table in all ways, one line of JSON for each."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    for name, read in READS.items():
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
        before = _memory("VmRSS")
        try:
            outcome = f"rows: {read(path)}"
        except LanceError as error:
            outcome = f"{type(error).__name__}: {error}"
        except Exception as error:  # what no bomb may come to
            outcome = f"bug: {type(error).__name__}: {error}"
        taken = _memory("VmHWM") - before
        print(json.dumps([name, outcome, taken]), flush=True)


def _memory(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith(what)]
    return int(found) * 1024


if __name__ == "__main__":
    serve(read_bomb)
