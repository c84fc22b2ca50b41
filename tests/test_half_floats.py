"""Filters on half floats, which Arrow cannot compare, work as those on floats do."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.scan.expressions import evaluate
from lancefs.scan.half_floats import widen_literals

HALVES = np.array([0.0, -0.0, 1.5, 2.25, -3.0, np.inf, -np.inf, np.nan, 65504.0, 0.1], np.float16)
FIELD, OTHER = pc.field("h"), pc.field("f")


def half(value: float) -> pa.Scalar:
    return pa.scalar(np.float16(value), pa.float16())


FILTERS = [
    *(FIELD > 1, FIELD >= 1.5, FIELD == 2.25, FIELD != 0, half(1.5) > FIELD, half(0.1) >= FIELD),
    *(half(0.1) == FIELD, FIELD.isin([1.5, 2.25]), FIELD.isin(pa.array(HALVES[2:4]))),
    *(FIELD.is_null(), FIELD.is_valid(), FIELD.is_nan(), ~(FIELD > 1), FIELD > OTHER),
    *((FIELD > 1) & (OTHER < 50), (FIELD > 1) | FIELD.is_null(), FIELD.cast(pa.float64()) > 1),
    *(FIELD + OTHER > 3, pc.field("s", "h") > 1),
]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    halves = pa.array([*HALVES, None], pa.float16())
    struct = pa.StructArray.from_arrays([halves], names=["h"])
    numbers = pa.array(range(len(halves)), pa.float64())
    return pa.table({"h": halves, "f": numbers, "s": struct, "id": range(len(halves))})


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def dataset(
    rows: pa.Table, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> lancefs.LanceDataset:
    path = str(tmp_path_factory.mktemp("halves") / "t.lance")
    lance.write_dataset(rows, path, data_storage_version=request.param)
    return lancefs.open(path)


@pytest.mark.parametrize("filter", FILTERS, ids=str)
def test_a_filter_on_half_floats_keeps_the_rows_of_one_on_floats(
    filter: pc.Expression, rows: pa.Table, dataset: lancefs.LanceDataset
) -> None:
    floats = rows["h"].cast(pa.float32()).combine_chunks()
    struct = pa.StructArray.from_arrays([floats], names=["h"])
    wide = pa.table({"h": floats, "f": rows["f"], "s": struct, "id": rows["id"]})
    (passed,) = evaluate([widen_literals(filter)], wide.to_batches()[0])
    expected = {row for row, is_true in enumerate(passed.to_pylist()) if is_true}
    found = dataset.to_table(columns=["id", "h"], filter=filter)
    assert set(found["id"].to_pylist()) == expected
    assert found["h"].type == pa.float16()
    assert dataset.count_rows(filter) == len(expected)


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_members_without_nulls_may_lie_below_a_null(version: str, tmp_path: Path) -> None:
    """Arrow refuses to cast a struct like `inner`, although only its parent is null."""
    inner = pa.struct([pa.field("n", pa.int32(), nullable=False)])
    kind = pa.struct([pa.field("h", pa.float16()), pa.field("inner", inner, nullable=False)])
    values = [None if row % 3 == 0 else {"h": row, "inner": {"n": row}} for row in range(9)]
    schema = pa.schema([("s", kind), ("id", pa.int64())])
    rows = pa.table({"s": values, "id": range(9)}, schema)
    lance.write_dataset(rows, tmp_path / "t.lance", data_storage_version=version)
    dataset = lancefs.open(tmp_path / "t.lance")
    for filter in (pc.field("s", "h") > 4, pc.field("s", "inner", "n") > 4, "s.h > 4"):
        assert dataset.to_table(columns=["id"], filter=filter)["id"].to_pylist() == [5, 7, 8]
    assert dataset.to_table(filter=pc.field("s").is_null())["id"].to_pylist() == [0, 3, 6]


@pytest.mark.parametrize("name", ["item", "h"])
def test_lists_of_half_floats_without_nulls_are_searched(name: str, tmp_path: Path) -> None:
    item = pa.field(name, pa.float16(), nullable=False)
    lists = pa.array([[1.5, 2.0], [], None, [2.0]], pa.list_(item))
    lance.write_dataset(pa.table({"l": lists, "id": range(4)}), str(tmp_path / "t.lance"))
    dataset = lancefs.open(str(tmp_path / "t.lance"))
    for filter, expected in [
        ("array_has(l, 1.5)", [0]),
        ("array_has_any(l, [1.5, 2])", [0, 3]),
        ("array_has_all(l, [1.5, 2])", [0]),
        ("array_length(l) = 1", [3]),
    ]:
        found = dataset.to_table(columns=["id"], filter=filter)
        assert found["id"].to_pylist() == expected, filter
