"""The tables that the benchmarks read, written by pylance into `build/bench`, once.

`lines` has the columns of TPC-H's lineitem: integers, decimals, dates, strings of few values, and
text. The other tables have what that one lacks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

WORDS = (
    "blithely final packages sleep quickly carefully requests even deposits across the slyly "
    "ironic accounts furiously bold theodolites among pending foxes"
)
FORMATS = ("2.0", "2.1", "2.2")
SMALL_FRAGMENTS = 1000
# What writers leave that append every few seconds.
FRAGMENTS_OF_500_ROWS = 1500
VERSIONS = 1500
LISTED_FRAGMENTS = 100_000
# Words that articles choose from.
ARTICLE_WORDS = 50_000


def prepare(directory: Path, rows: int) -> Path:
    """Write the tables, unless they are there.

    Args:
        directory: Where; a directory for this number of rows is made in it.
        rows: Rows of `lines`.

    Returns:
        The directory that holds `lines-2.1.lance` and the others.
    """
    home = directory / str(rows)
    done = home / "written.json"
    if not done.exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for name in _write(home, rows):
            print(f"wrote {home / name}")
        done.write_text(json.dumps({"rows": rows}))
    return home


def _write(home: Path, rows: int) -> Iterator[str]:
    import lance

    def save(name: str, table: pa.Table, **options: object) -> str:
        options = {"data_storage_version": "2.1", **options}
        lance.write_dataset(table, str(home / name), **options)
        return name

    flat = lines(rows)
    for version in FORMATS:
        yield save(f"lines-{version}.lance", flat, data_storage_version=version)
    pq.write_table(flat, home / "lines.parquet")
    yield "lines.parquet"
    yield save("deleted.lance", flat)
    lance.dataset(str(home / "deleted.lance")).delete("partkey % 10 = 3")
    few = flat.slice(0, min(rows, SMALL_FRAGMENTS * 1000))
    yield save("fragments.lance", few, max_rows_per_file=max(1, few.num_rows // SMALL_FRAGMENTS))
    for version in FORMATS[1:]:
        yield save(f"nested-{version}.lance", nested(rows // 3), data_storage_version=version)
        yield save(f"vectors-{version}.lance", vectors(rows // 60), data_storage_version=version)
    yield save("documents-2.1.lance", documents(rows // 60))
    yield save("wide-2.1.lance", wide(rows // 24))
    yield from write_indexed(home, rows)
    small = lines(500 * FRAGMENTS_OF_500_ROWS)
    yield save("small-fragments.lance", small, max_rows_per_file=500)
    for version in range(VERSIONS):
        part, mode = small.slice(20 * version, 20), "append" if version else "create"
        save("versions.lance", part, mode=mode)
    yield "versions.lance"
    save("many-fragments.lance", small.slice(0, 100))
    _repeat_fragment(home / "many-fragments.lance", LISTED_FRAGMENTS)
    yield "many-fragments.lance"


def write_indexed(home: Path, rows: int) -> Iterator[str]:
    """Write the tables that have indices.

    Args:
        home: Where.
        rows: Rows of the largest one.
    """
    import lance

    lance.write_dataset(people(rows), str(home / "indexed.lance"), max_rows_per_file=1_000_000)
    for column, kind in (("id", "BTREE"), ("name", "BTREE"), ("city", "BITMAP")):
        lance.dataset(str(home / "indexed.lance")).create_scalar_index(column, kind)
    yield "indexed.lance"
    lance.write_dataset(articles(rows // 20), str(home / "articles.lance"))
    for column, kind in (("title", "NGRAM"), ("tags", "LABEL_LIST")):
        lance.dataset(str(home / "articles.lance")).create_scalar_index(column, kind)
    lance.dataset(str(home / "articles.lance")).create_scalar_index(
        "body", "INVERTED", with_position=True, stem=False, remove_stop_words=False
    )
    yield "articles.lance"
    lance.write_dataset(embeddings(rows // 6), str(home / "embeddings.lance"))
    lance.dataset(str(home / "embeddings.lance")).create_index(
        "vector", "IVF_PQ", num_partitions=max(1, rows // 24_000), num_sub_vectors=16
    )
    yield "embeddings.lance"


def _repeat_fragment(path: Path, times: int) -> None:
    """Commit a version of many fragments, all of them with the data file of the only one."""
    import lance

    dataset = lance.dataset(str(path))
    (only,) = [fragment.metadata for fragment in dataset.get_fragments()]
    fragments = [
        lance.FragmentMetadata(number, only.files, only.physical_rows) for number in range(times)
    ]
    operation = lance.LanceOperation.Overwrite(dataset.schema, fragments)
    lance.LanceDataset.commit(str(path), operation, read_version=dataset.version)


def lines(rows: int) -> pa.Table:
    """Return the 16 columns of TPC-H's lineitem, with values spread as its generator does."""
    source = np.random.default_rng(7)

    def pick(*values: str) -> pa.Array:
        return pa.array(values).take(pa.array(source.integers(0, len(values), rows)))

    def decimals(low: int, high: int) -> pa.Array:
        words = np.zeros((rows, 2), np.int64)
        words[:, 0] = source.integers(low, high, rows)
        return pa.Array.from_buffers(pa.decimal128(15, 2), rows, [None, pa.py_buffer(words)])

    def dates(values: np.ndarray) -> pa.Array:
        return pa.array(values.astype(np.int32)).cast(pa.date32())

    shipped = source.integers(8_000, 10_600, rows)
    return pa.table(
        {
            "orderkey": np.sort(source.integers(0, 4 * rows, rows)),
            "partkey": source.integers(0, 200_000, rows),
            "suppkey": source.integers(0, 10_000, rows),
            "linenumber": source.integers(1, 8, rows),
            "quantity": decimals(100, 5_100),
            "price": decimals(90_000, 10_500_000),
            "discount": decimals(0, 11),
            "tax": decimals(0, 9),
            "flag": pick("A", "N", "R"),
            "status": pick("F", "O"),
            "shipdate": dates(shipped),
            "commitdate": dates(shipped + source.integers(-60, 60, rows)),
            "receiptdate": dates(shipped + source.integers(1, 31, rows)),
            "instruct": pick("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"),
            "shipmode": pick("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
            "comment": _text(source, rows),
        }
    )


def embeddings(rows: int) -> pa.RecordBatchReader:
    """Return vectors of 128 numbers around a thousand centres, with the numbers of their rows."""
    source = np.random.default_rng(17)
    centres = source.standard_normal((1000, 128)).astype(np.float32)
    vector = pa.list_(pa.float32(), 128)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, 100_000):
            count = min(100_000, rows - start)
            noise = 0.7 * source.standard_normal((count, 128), np.float32)
            values = centres[source.integers(0, 1000, count)] + noise
            column = pa.FixedSizeListArray.from_arrays(values.astype(np.float32).ravel(), 128)
            ids = pa.array(np.arange(start, start + count))
            yield pa.record_batch({"id": ids, "vector": column})

    schema = pa.schema([("id", pa.int64()), ("vector", vector)])
    return pa.RecordBatchReader.from_batches(schema, batches())


def nested(rows: int) -> pa.Table:
    """Return lists, structs, and columns with nulls."""
    source = np.random.default_rng(8)
    lengths = source.integers(0, 9, rows)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    items = pa.array(source.integers(0, 1_000_000, int(offsets[-1])).astype(np.int32))
    numbers = source.integers(0, 1 << 40, rows)
    missing = source.random(rows) < 0.1
    pair = [pa.array(numbers), pa.array(source.random(rows))]
    return pa.table(
        {
            "list": pa.ListArray.from_arrays(pa.array(offsets), items),
            "struct": pa.StructArray.from_arrays(pair, ["number", "share"]),
            "nullable": pa.array(numbers, mask=missing),
            "nullable_text": pc.if_else(pa.array(missing), None, _text(source, rows)),
        }
    )


def vectors(rows: int) -> pa.Table:
    """Return vectors as embedding models give them."""
    source = np.random.default_rng(9)
    values = pa.array(source.standard_normal(rows * 768, np.float32))
    return pa.table({"vector": pa.FixedSizeListArray.from_arrays(values, 768)})


def documents(rows: int) -> pa.Table:
    """Return texts of about 4,000 letters, such as are cut for embeddings."""
    source = np.random.default_rng(10)
    letters = source.integers(97, 123, 1 << 22, np.uint8).tobytes().decode()
    starts = source.integers(0, len(letters) - 4_000, rows)
    texts = pa.array([letters[start : start + 4_000] for start in starts.tolist()])
    return pa.table({"id": np.arange(rows), "document": texts})


def people(rows: int) -> pa.Table:
    """Return rows with keys in random order, and a column of 40 values."""
    source = np.random.default_rng(12)
    cities = pa.array([f"c{number:02d}" for number in range(40)])
    return pa.table(
        {
            "id": source.permutation(rows),
            "name": pa.array([f"user-{number:08d}" for number in source.permutation(rows)]),
            "city": cities.take(pa.array(source.integers(0, 40, rows))),
            "score": source.random(rows),
        }
    )


def articles(rows: int) -> pa.Table:
    """Return texts whose words are as rare as those of a language; the frequent ones are short.

    A word is `w` with its rank in base 10: the word of rank n occurs about 1 / n as often as the
    first one.
    """
    source = np.random.default_rng(13)
    words = pa.array([f"w{rank}" for rank in range(1, ARTICLE_WORDS + 1)])
    shares = np.cumsum(1 / np.arange(1, ARTICLE_WORDS + 1))

    def texts(least: int, most: int) -> pa.Array:
        offsets = np.concatenate(([0], np.cumsum(source.integers(least, most, rows))))
        ranks = np.searchsorted(shares, source.random(int(offsets[-1])) * shares[-1])
        lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), words.take(ranks))
        return pc.binary_join(lists, " ")

    offsets = np.concatenate(([0], np.cumsum(source.integers(0, 5, rows)))).astype(np.int32)
    tags = words.take(source.integers(0, 1000, int(offsets[-1])))
    return pa.table(
        {
            "id": np.arange(rows),
            "title": texts(3, 8),
            "tags": pa.ListArray.from_arrays(pa.array(offsets), tags),
            "body": texts(20, 60),
        }
    )


def wide(rows: int) -> pa.Table:
    """Return 200 columns of numbers, such as the features of a model."""
    numbers = np.random.default_rng(11).integers(0, 1 << 40, rows)
    return pa.table({f"feature_{number}": np.roll(numbers, number) for number in range(200)})


def _text(source: np.random.Generator, rows: int) -> pa.Array:
    counts = source.integers(2, 7, rows)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    known = WORDS.split()
    words = pa.array(known).take(pa.array(source.integers(0, len(known), int(offsets[-1]))))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), words), " ")
