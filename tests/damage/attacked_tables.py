"""The tables that are attacked: small ones of the corpus, and some that are written for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
from support import CorpusCase, corpus_cases

SMALL = 150_000  # bytes of a table that is read quickly
_FORMATS = ("2.0", "2.1", "2.2", "2.3")


def movable_cases() -> list[CorpusCase]:
    """The small tables of the corpus that can be read where they are copied to."""
    return [
        case
        for case in corpus_cases()
        if "relocate" not in case.info and "overlay" not in case.name and _size(case) < SMALL
    ]


def _size(case: CorpusCase) -> int:
    table = case.directory / "table.lance"
    return sum(path.stat().st_size for path in table.rglob("*") if path.is_file())


def attacked_tables(written: Path) -> dict[str, Path]:
    """Return the tables by name, in an order that seeds rely on.

    Args:
        written: Where tables are written that are not there yet. Their names and times differ each
            time that they are written, and so may what a seed does to them.
    """
    tables = {case.name: case.directory / "table.lance" for case in movable_cases()}
    for name in _written_names():
        if not (written / name).exists():
            unfinished = written / f"{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            _write(name, unfinished)
            unfinished.rename(written / name)
        tables[name] = written / name
    return tables


def _written_names() -> Iterator[str]:
    for version in _FORMATS:
        yield f"flat-{version}"
        yield f"nested-{version}"
        yield f"history-{version}"


def _write(name: str, target: Path) -> None:
    kind, _, version = name.partition("-")
    if kind == "history":
        _write_history(target, version)
        return
    import lance

    # Format 2.0 has no nulls of structs.
    rows = _flat(150) if kind == "flat" else _nested(150, version != "2.0")
    lance.write_dataset(rows, target, data_storage_version=version, max_rows_per_file=100)


def _write_history(target: Path, version: str) -> None:
    """Write a table with ids that stay, versions of rows, deletions, an index, tags, a branch."""
    import lance

    rows = pa.table({"id": np.arange(120), "text": [f"text {i % 9}" for i in range(120)]})
    table = lance.write_dataset(
        rows,
        target,
        data_storage_version=version,
        max_rows_per_file=50,
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=version != "2.0",
    )
    table.create_scalar_index("id", "BTREE")
    table.delete("id % 10 = 3")
    table.update({"text": "'changed'"}, where="id > 100")
    table = lance.write_dataset(rows.slice(5, 20), target, mode="append")
    table.delete("id < 40 AND id % 2 = 0")  # enough of a fragment for a bitmap
    table.tags.create("first", 1)
    table.create_branch("side", 2)


def _flat(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 1000, rows)
    some = rng.random(rows) < 0.2
    times = [None if n % 7 == 0 else datetime(2024, 1, 1 + int(n) % 28) for n in numbers]
    return pa.table(
        {
            "i64": pa.array(numbers, mask=some),
            "u8": pa.array(numbers % 200, pa.uint8()),
            "run": pa.array(np.repeat(numbers[: rows // 10], 10), pa.int32()),
            "f16": pa.array((numbers / 8).astype(np.float16)),
            "f64": pa.array(rng.random(rows), mask=some),
            "yes": pa.array(numbers % 2 == 0, mask=some),
            "time": pa.array(times, pa.timestamp("us")),
            "day": pa.array(numbers.astype("int32"), pa.date32()),
            "cents": pa.array([Decimal(int(n)) / 4 for n in numbers], pa.decimal128(12, 2)),
            "text": pa.array([None if n % 5 == 0 else f"text {n}" * 3 for n in numbers]),
            "few": pa.array([f"value {n % 4}" for n in numbers]),
            "bytes": pa.array([bytes([n % 256]) * (n % 40) for n in numbers], pa.binary()),
            "none": pa.nulls(rows, pa.string()),
        }
    )


def _nested(rows: int, has_nulls: bool) -> pa.Table:
    rng = np.random.default_rng(2)
    numbers = [int(n) for n in rng.integers(0, 100, rows)]
    lists = [None if n % 9 == 0 else list(range(n % 6)) for n in numbers]
    deep = [None if n % 11 == 0 else [[f"t{n}"] * (n % 3), None][: n % 3] for n in numbers]
    structs = [
        None if has_nulls and n % 8 == 0 else {"a": n, "b": {"c": f"s{n}", "d": [n]}}
        for n in numbers
    ]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(4 * rows), pa.float32()), 4)
    zstd = {b"lance-encoding:compression": b"zstd"}
    blob = {b"lance-encoding:blob": b"true"}
    fields = [
        pa.field("id", pa.int64()),
        pa.field("list", pa.list_(pa.int64())),
        pa.field("deep", pa.list_(pa.list_(pa.string()))),
        pa.field("struct", pa.struct({"a": pa.int64(), "b": _inner()})),
        pa.field("vector", vectors.type),
        pa.field("packed", pa.large_string(), metadata=zstd),
        pa.field("blob", pa.large_binary(), metadata=blob),
    ]
    texts = [f"long text {n} " * 20 for n in numbers]
    blobs = [None if n % 4 == 0 else b"blob" * n for n in numbers]
    values = [numbers, lists, deep, structs, vectors, texts, blobs]
    arrays = [pa.array(found, one.type) for found, one in zip(values, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _inner() -> pa.DataType:
    return pa.struct({"c": pa.string(), "d": pa.list_(pa.int64())})
