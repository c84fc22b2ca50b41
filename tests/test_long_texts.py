"""Filters over tables with long texts, each of which is found without the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage

ROWS = 12_000
RNG = np.random.default_rng(5)


def _table(compression: str | None) -> pa.Table:
    letters = RNG.integers(33, 127, 20_000, dtype="u1").tobytes().decode()
    starts, lengths = RNG.integers(0, 18_000, ROWS), RNG.integers(300, 1_500, ROWS)
    pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
    texts = pa.array([letters[start : start + length] for start, length in pairs])
    metadata = {"lance-encoding:compression": compression} if compression else None
    columns = {
        "k": pa.array(RNG.integers(0, 10, ROWS)),
        "short": pa.array([f"row {number}" for number in range(ROWS)]),
        "long": pc.if_else(pa.array(RNG.random(ROWS) < 0.1), None, texts),
        "bytes": texts.cast(pa.binary()),
    }
    fields = [
        pa.field(name, values.type, metadata=metadata if name in ("long", "bytes") else None)
        for name, values in columns.items()
    ]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_filter_of_half_of_the_rows_returns_their_long_texts(
    tmp_path: Path, version: Any, compression: str | None
) -> None:
    table = _table(compression)
    written = lance.write_dataset(table, tmp_path / "t", data_storage_version=version)
    written.delete("short = 'row 77' or k = 9")
    left = table.filter(pc.field("k") != 9).filter(pc.field("short") != "row 77")
    ours = lancefs.open(tmp_path / "t")
    for most in (2, 5, 8):
        wanted = left.filter(pc.field("k") < most)
        assert ours.to_table(filter=f"k < {most}").equals(wanted)
        assert ours.to_table(["long"], filter=f"k < {most}").equals(wanted.select(["long"]))
        batches = ours.to_batches(["bytes", "short"], filter=f"k < {most}")
        assert pa.Table.from_batches(batches).equals(wanted.select(["bytes", "short"]))


def test_a_filter_of_half_of_the_rows_decodes_no_long_texts_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, decoded = _table("lz4"), 0
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.1")
    decode = FullZipPage._decode_rows

    def counted(self: FullZipPage, data: Any, starts: Any, ends: Any) -> Any:
        nonlocal decoded
        decoded += len(starts)
        return decode(self, data, starts, ends)

    monkeypatch.setattr(FullZipPage, "_decode_rows", counted)
    kept = lancefs.open(tmp_path / "t").to_table(["bytes"], filter="k < 5")
    assert kept.num_rows == decoded < 0.6 * ROWS
