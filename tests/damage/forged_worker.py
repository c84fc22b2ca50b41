"""A process that reads forged tables, of which some might end it; see `forking`.

It says what came of each way to read one.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable

import pyarrow as pa

import lancefs
from damage.forking import serve
from lancefs.errors import CorruptFile, LanceError

_ADDRESS_SPACE = 4 << 30


def _whole(path: str) -> pa.Table:
    return lancefs.open(path).to_table()


def _head(path: str) -> pa.Table:
    return lancefs.open(path).head(3)


def _two(path: str) -> pa.Table:
    dataset = lancefs.open(path)
    return dataset.take([0, dataset.count_rows() - 1])


def _batches(path: str) -> pa.Table:
    return pa.Table.from_batches(list(lancefs.open(path).to_batches()))


READS: dict[str, Callable[[str], pa.Table]] = {
    read.__name__[1:]: read for read in (_whole, _head, _two, _batches)
}


def read_forged(path: str) -> None:
    """Read a table in all ways, one line of JSON for each: what was raised, or the rows."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    for name, read in READS.items():
        raised, said, rows = None, "", None
        try:
            table = read(path)
            table.validate(full=True)
            rows = [repr(value) for value in table["a"].to_pylist()]
        except LanceError as error:
            raised, said = type(error).__name__, str(error)
            if isinstance(error, CorruptFile) and error.is_caught_by_net:
                raised = "net"
        except Exception as error:  # what must not come of it
            raised, said = f"bug: {type(error).__name__}", str(error)
        print(json.dumps([name, raised, said, rows]), flush=True)


if __name__ == "__main__":
    serve(read_forged)
