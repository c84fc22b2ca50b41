"""`pyarrow.dataset` is imported without pandas, and pandas is known when it comes."""

from __future__ import annotations

import json
import os

import lance
import pyarrow as pa
import pytest
from support import run_python

from lancefs.arrow_dataset import _make_true_without_pandas

READS = {
    "head": "lancefs.open({0!r}).head(2)",
    "table": "lancefs.open({0!r}).to_table()",
    "take": "lancefs.open({0!r}).take([3, 1])",
    "take of ids": "lancefs.open({0!r}).take(row_ids=[3, 1])",
    "row metadata": "lancefs.open({0!r}).to_table(columns=['_rowid', 'id'])",
    "view": (
        "import fsspec, pyarrow as pa\n"
        "with fsspec.open('lance://latest.arrow::' + {0!r}) as file:\n"
        "    pa.ipc.open_file(file).get_batch(0)"
    ),
    "expressions": "import lancefs.scan.expressions",
    "filter": "lancefs.open({0!r}).to_table(filter=\"id IN (1, 2) AND text LIKE 't%'\")",
    "times": "lancefs.open({0!r}).to_table(filter=\"ts > timestamp '1970-01-01 00:00:03'\")",
    "remainder": "lancefs.open({0!r}).to_table(filter='id % 7 = 3 AND NOT id % 2 = 1')",
    "index": "assert lancefs.open({0!r}).count_rows('id = 5') == 1",
    "zones": "assert lancefs.open({0!r}).count_rows('zone < 5') == 4",
    "nearest": "assert len(lancefs.open({0!r}).nearest('vector', [1.0, 2.0], 3)) == 3",
    "search": "assert len(lancefs.open({0!r}).search('78', k=3)) == 1",
    "changes": "assert len(lancefs.open({0!r}).changes(1)) == 1",
    "shown": "from lancefs.short_texts import readable; readable(lancefs.open({0!r}).head(2))",
    "in a notebook": "lancefs.open({0!r})._repr_html_()",
    "changes by a key": "assert len(lancefs.open({0!r}).changes(1, key=['id'])) == 1",
    "history": "assert len(lancefs.open({0!r}).history(newest=2)) == 2",
    "profile": "lancefs.open({0!r}).describe()",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with numbers, texts and a deletion."""
    path = str(tmp_path_factory.mktemp("tables") / "t.lance")
    texts = pa.array([None if i % 7 == 0 else f"text {i}" for i in range(5_000)])
    times = pa.array(range(5_000), pa.timestamp("ms"))
    numbers = pa.array(range(5_000))
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(10_000), pa.float32()), 2)
    columns = {"id": numbers, "text": texts, "ts": times, "zone": numbers, "vector": vectors}
    lance.write_dataset(pa.table(columns), path)
    lance.dataset(path).delete("id = 2")
    for column, kind in (("id", "BTREE"), ("zone", "ZONEMAP")):
        lance.dataset(path).create_scalar_index(column, kind)
    # Stems would need a package that is not installed with the oldest dependencies.
    lance.dataset(path).create_scalar_index("text", "INVERTED", stem=False)
    return path


# Tells of each read whether a process that has done no other imports pandas for it.
EACH_READ = """
import json, os, sys
import lancefs
for name, read in json.loads(sys.argv[1]).items():
    child = os.fork()
    if child == 0:
        exec(read)
        print(json.dumps([name, "pandas" in sys.modules]), flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, name
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_new_process_reads_without_pandas(table: str) -> None:
    reads = {name: read.format(table) for name, read in READS.items()}
    said = run_python(EACH_READ, json.dumps(reads)).splitlines()
    assert dict(map(json.loads, said)) == dict.fromkeys(READS, False)


def test_arrow_knows_the_nulls_of_pandas_that_comes_later(table: str) -> None:
    program = (
        f"import lancefs; lancefs.open({table!r}).head(1)\n"
        "import json, pandas, pyarrow as pa\n"
        "texts = pandas.Series(['a', None, pandas.NA, float('nan')], dtype=object)\n"
        "times = pandas.Series([pandas.NaT, pandas.Timestamp(0)])\n"
        "numbers = [1, pandas.NA]\n"
        "print(json.dumps([\n"
        "    pa.array(texts).to_pylist(),\n"
        "    pa.array(times).is_null().to_pylist(),\n"
        "    pa.array(numbers, from_pandas=True).to_pylist(),\n"
        "    pa.scalar(True).as_py(), pa.lib.scalar is pa.scalar,\n"
        "]))\n"
    )
    got = json.loads(run_python(program))
    assert got == [["a", None, None, None], [True, False], [1, None], True, True]


def test_scalars_are_the_same_while_pandas_is_kept_out() -> None:
    before = pa.lib.scalar
    with _make_true_without_pandas():
        assert pa.lib.scalar is not before
        for value in (True, False, None, 1, 1.0, "a"):
            assert pa.lib.scalar(value).equals(pa.scalar(value))
        assert pa.lib.scalar(True, type=pa.bool_()).equals(pa.scalar(True))
    assert pa.lib.scalar is before


# Four threads convert values, and one imports pyarrow.dataset by itself, while the main thread
# imports it through lancefs, and waits half-way for a call that meets the replaced function.
THREADS = """
import datetime, decimal, random, sys, threading
import pyarrow as pa

sys.setswitchinterval(1e-5)
VALUES = [True, False, None, 1, -7, 2.5, "a", b"b", decimal.Decimal("1.20"),
          datetime.date(2026, 1, 31), [1, None], {"x": True}, [True]]
EXPECTED = [(pa.scalar(value).type, repr(pa.scalar(value).as_py())) for value in VALUES]
wrong = []
ready, stop, met = threading.Barrier(6), threading.Event(), threading.Event()

class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name == "pyarrow._acero":
            assert met.wait(60), "no call met the replaced function"

def convert(seed):
    rng = random.Random(seed)
    ready.wait()
    while not stop.is_set():
        at = rng.randrange(len(VALUES))
        value, (data_type, _) = VALUES[at], EXPECTED[at]
        scalar = pa.lib.scalar
        if scalar is not pa.scalar:
            met.set()
        for got in (scalar(value), scalar(value=value), scalar(value, type=data_type),
                    scalar(value, data_type, from_pandas=True), pa.scalar(value),
                    pa.array([value])[0]):
            got.validate(full=True)
            if (got.type, repr(got.as_py())) != EXPECTED[at]:
                wrong.append((value, got))

def import_plainly():
    ready.wait()
    met.wait(60)
    import pyarrow.dataset
    if str(pyarrow.dataset.field("a") == True) != "(a == true)":
        wrong.append("an expression")

threads = [threading.Thread(target=convert, args=(seed,)) for seed in range(4)]
threads.append(threading.Thread(target=import_plainly))
for thread in threads:
    thread.start()
ready.wait()
sys.meta_path.insert(0, Waiting())
from lancefs.arrow_dataset import acero, pads
stop.set()
for thread in threads:
    thread.join()
assert not wrong, wrong[:5]
assert pa.lib.scalar is pa.scalar
table = pads.dataset(pa.table({"a": [1, 2]})).to_table(filter=pads.field("a") > 1)
assert table.to_pydict() == {"a": [2]}
print(met.is_set())
"""


def test_threads_get_the_same_scalars_while_pyarrow_dataset_is_imported() -> None:
    assert run_python(THREADS) == "True\n"
