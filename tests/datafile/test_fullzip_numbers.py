"""Numbers in full-zip pages, as a writer stores them if the metadata of a field says so."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs

FULL_ZIP = {"lance-encoding:structural-encoding": "fullzip"}
KINDS = (pa.int8(), pa.int64(), pa.float32(), pa.timestamp("us"), pa.decimal128(12, 0))
ROWS = 300


def _table(kind: pa.DataType) -> pa.Table:
    numbers = pa.array(np.arange(ROWS) % 100)
    values = (
        numbers.cast(kind)
        if kind != pa.decimal128(12, 0)
        else numbers.cast(pa.decimal128(19, 0)).cast(kind)
    )
    missing = pa.array([None if n % 7 == 0 else n for n in range(ROWS)])
    inner = pa.field("x", kind, metadata=FULL_ZIP)
    schema = pa.schema(
        [
            pa.field("a", kind, metadata=FULL_ZIP),
            pa.field("b", pa.int64(), metadata=FULL_ZIP),
            pa.field("s", pa.struct([inner])),
            pa.field("n", pa.int64()),
        ]
    )
    structs = pa.StructArray.from_arrays([values], fields=[inner])
    return pa.table([values, missing, structs, pa.array(range(ROWS))], schema=schema)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers_in_fullzip_pages(kind: pa.DataType, version: str, tmp_path: Path) -> None:
    url, rows = str(tmp_path / "t.lance"), _table(kind)
    lance.write_dataset(rows, url, max_rows_per_file=120, data_storage_version=version)
    ds, expected = lancefs.open(url), lance.dataset(url)
    assert ds.to_table() == expected.to_table().cast(ds.schema)
    for names in (["a"], ["b"], ["s"], ["a", "n"], ["b", "s"]):
        found = ds.to_table(columns=names)
        assert found == rows.select(names).cast(found.schema)
        some = ds.to_table(columns=names, limit=150, offset=33)
        assert some == found.slice(33, 150)
        places = [0, 5, 119, 120, 121, 299]
        assert ds.take(places, columns=names) == found.take(places)
        filtered = ds.to_table(columns=names, filter="n % 3 = 1 and b > 20")
        kept = [n for n in range(ROWS) if n % 3 == 1 and n % 7 and n > 20]
        assert filtered == found.take(kept)
    assert ds.count_rows("b is null") == rows["b"].null_count
