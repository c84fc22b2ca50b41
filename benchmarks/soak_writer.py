"""The writers of the soak: processes that change tables with pylance, and note what versions hold.

Tables keep their size: what is appended is deleted after some rounds, fragments are compacted, and
old versions are cleaned up. So memory that grows is not that of growing tables.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

KEPT = timedelta(seconds=20)  # versions that are older are cleaned up
ROWS = 5000  # of a table, about
_STEP = 500  # rows that are appended at a time


@dataclass
class Written:
    """What a writer process does.

    Attributes:
        paths: Its tables, which it changes in turns.
        notes: File to which it adds a line of JSON for each version: table, version, rows, sum of
            the column `value`, time of the note.
        seconds: How long.
        pause: Seconds between two commits.
        options: Storage options of the tables.
    """

    paths: Sequence[str]
    notes: str
    seconds: float
    pause: float
    options: dict[str, str] = field(default_factory=dict)


def write(what: Written) -> None:
    """Change tables at random until the time is up; note what each version holds."""
    import lance

    ends = time.monotonic() + what.seconds
    first = dict.fromkeys(what.paths, ROWS)
    with Path(what.notes).open("a", encoding="utf-8", buffering=1) as log:
        for path in what.paths:
            _note(
                log, path, lance.write_dataset(_rows(0, ROWS), path, storage_options=what.options)
            )
        while time.monotonic() < ends:
            path = random.choice(what.paths)
            dataset = lance.dataset(path, storage_options=what.options)
            first[path] = _change(dataset, path, first[path], what.options)
            dataset = lance.dataset(path, storage_options=what.options)
            _note(log, path, dataset)
            time.sleep(what.pause)


def _note(log: Any, path: str, dataset: Any) -> None:
    table = dataset.to_table(columns=["value"])
    total = pc.sum(table["value"]).as_py() or 0
    log.write(json.dumps([path, dataset.version, table.num_rows, total, time.time()]) + "\n")


def _rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    values = [random.randrange(1 << 30) for _ in ids]
    return pa.table({"id": ids, "value": values, "text": [f"row {i}" * (i % 5) for i in ids]})


def _change(dataset: Any, path: str, first: int, options: dict[str, str]) -> int:
    """Change a table; return the id that its next row gets."""
    import lance

    action = random.choice(["append", "delete"] * 3 + ["update", "merge", "compact", "clean"])
    at = random.randrange(first - ROWS, first)
    if action == "append":
        lance.write_dataset(_rows(first, _STEP), path, mode="append", storage_options=options)
        return first + _STEP
    if action == "delete":
        dataset.delete(f"id < {first - ROWS}")
    elif action == "update":
        dataset.update({"value": "value + 1"}, where=f"id >= {at} AND id < {at + 200}")
    elif action == "merge":
        merge = dataset.merge_insert("id").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(_rows(at, min(300, first - at)))
    elif action == "compact":
        dataset.optimize.compact_files(target_rows_per_fragment=100_000)
    else:
        dataset.cleanup_old_versions(older_than=KEPT)
    return first
