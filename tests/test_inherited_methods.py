"""What a dataset inherits from pyarrow works, or is refused; nothing ends the process."""

from __future__ import annotations

import json
import subprocess
import sys

import lance
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

# Calls of every method that a dataset inherits, by the method; `ds` and `other` are Lance tables,
# `plain` is a dataset of pyarrow, and the value says what comes out: rows, or an error.
ALONE: dict[str, dict[str, int | str]] = {
    "children": {"ds.children": "list"},
    "count_rows": {"ds.count_rows()": 6},
    "filter": {"ds.filter(pc.field('k') > 2).to_table()": 4, "ds.filter('k > 2').count_rows()": 4},
    "get_fragments": {"[one.to_table() for one in ds.get_fragments()][0]": 3},
    "head": {"ds.head(2)": 2},
    "join": {"ds.join(right_dataset=None, keys='k')": "TypeError"},
    "join_asof": {"ds.join_asof(None, 't', 'k', 1)": "TypeError"},
    "partition_expression": {"ds.partition_expression": "Expression"},
    "replace_schema": {"ds.replace_schema(ds.schema).to_table()": 6},
    "scanner": {"ds.scanner().to_table()": 6, "ds.scanner(filter='k < 3').count_rows()": 2},
    "schema": {"ds.schema": "Schema"},
    "sort_by": {"ds.sort_by([('k', 'descending')]).head(1)": 1},
    "take": {"ds.take([3, 1])": 2},
    "to_batches": {"next(iter(ds.to_batches()))": 3},
    "to_table": {"ds.to_table()": 6},
}
WITH_ANOTHER: dict[str, dict[str, int | str]] = {
    "children": {"pads.UnionDataset(ds.schema, [ds, other]).to_table()": "TypeError"},
    "count_rows": {"ds.count_rows(other)": "TypeError"},
    "filter": {"ds.filter(other)": "TypeError"},
    "get_fragments": {"next(ds.get_fragments()).to_table(filter=other)": "TypeError"},
    "head": {"ds.head(other)": "TypeError", "plain.head(ds)": "TypeError"},
    "join": {
        "ds.join(other, ['k', 't']).to_table()": 6,
        "ds.join(ds, ['k', 't'], right_suffix='_r').to_table()": 6,
        "ds.join(other.filter('k > 4'), ['k', 't'], join_type='inner').to_table()": 2,
        "ds.filter('k > 4').join(plain, ['k', 't']).to_table()": 2,
        "ds.join(plain.filter(pc.field('k') > 4), ['k', 't'], join_type='inner').to_table()": 2,
        "ds.join(pa.table({'k': [1], 'z': [2]}), 'k').to_table()": 6,
        "ds.join(next(other.get_fragments()), 'k')": "TypeError",
        "plain.join(ds.to_table(), ['k', 't']).to_table()": 6,
        "plain.join(ds, 'k')": "call_methods_of_the_LanceDataset_instead",
        "pa.table({'k': [1]}).join(ds, 'k')": "call_methods_of_the_LanceDataset_instead",
        "pads.Dataset.join(ds, other, ['k', 't'])": "call_methods_of_the_LanceDataset_instead",
    },
    "join_asof": {
        "ds.join_asof(other, on='t', by='k', tolerance=1).to_table()": 6,
        "ds.join_asof(plain, on='t', by='k', tolerance=1).to_table()": 6,
        "plain.join_asof(ds, on='t', by='k', tolerance=1)": "LanceDataset",
        "pads.Dataset.join_asof(ds, other, 't', 'k', 1)": "LanceDataset",
    },
    "partition_expression": {"ds.partition_expression.equals(other)": "TypeError"},
    "replace_schema": {
        "ds.replace_schema(other)": "TypeError",
        "pads.dataset([ds, other]).to_table()": 12,
        "pads.Dataset.replace_schema(ds, ds.schema).to_table()": "TypeError",
    },
    "scanner": {
        "ds.scanner(columns=other)": "TypeError",
        "ds.scanner(filter=other)": "TypeError",
        "pads.Dataset.scanner(ds).to_table()": "TypeError",
        "pads.Scanner.from_dataset(ds).to_table()": "TypeError",
        "pads.write_dataset(ds, 'out', format='ipc')": "NoneType",
    },
    "schema": {"ds.schema.equals(other)": "TypeError"},
    "sort_by": {
        "ds.sort_by(other)": "TypeError",
        "pads.Dataset.sort_by(ds, 'k')": "call_methods_of_the_LanceDataset_instead",
    },
    "take": {"ds.take(other)": "TypeError", "plain.take(ds)": "TypeError"},
    "to_batches": {"list(ds.to_batches(other))": "TypeError"},
    "to_table": {"ds.to_table(other)": "TypeError", "plain.to_table(filter=ds)": "TypeError"},
}

# Evaluates calls and prints what comes out of each, so that the last line tells what ended it.
PROGRAM = """
import json, sys
import pyarrow as pa, pyarrow.compute as pc, pyarrow.dataset as pads
import lancefs

ds, other = map(lancefs.open, sys.argv[1:3])
plain = pads.dataset(other.to_table())
for call in json.loads(sys.argv[3]):
    print(json.dumps(call), flush=True)
    try:
        got = eval(call)
        got = got if isinstance(got, int) else getattr(got, "num_rows", type(got).__name__)
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
    print(json.dumps(got), flush=True)
"""


def _inherited() -> set[str]:
    """Return the public names of pyarrow's datasets."""
    return {name for name in dir(pads.UnionDataset) if not name.startswith("_")}


@pytest.mark.parametrize("calls", [ALONE, WITH_ANOTHER], ids=["alone", "with another dataset"])
def test_no_inherited_method_ends_the_process(
    calls: dict[str, dict[str, int | str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert set(calls) == _inherited(), "a release of pyarrow has methods that nothing tests"
    expected = {call: result for of_method in calls.values() for call, result in of_method.items()}
    folder = tmp_path_factory.mktemp("inherited")
    paths = [str(folder / name) for name in ("one.lance", "other.lance")]
    for path, column in zip(paths, "vw", strict=True):
        rows = pa.table({"k": range(1, 7), "t": range(6), column: range(6)})
        lance.write_dataset(rows, path, max_rows_per_file=3)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths, json.dumps(list(expected))],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-3000:]}"
    lines = list(map(json.loads, done.stdout.splitlines()))
    got = dict(zip(lines[::2], lines[1::2], strict=True))
    assert got.keys() == expected.keys()
    assert not {call: result for call, result in got.items() if not _fits(result, expected[call])}


def _fits(result: int | str, expected: int | str) -> bool:
    """Whether a number is the expected one, or a text has the expected part."""
    return str(expected) in result if isinstance(result, str) else result == expected
