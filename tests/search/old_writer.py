"""Writes tables with indices; run by a Python that has another release of pylance.

Usage: python old_writer.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

ROWS, DIMENSION = 2000, 16
SCALAR = {"id": "BTREE", "cat": "BITMAP", "tags": "LABEL_LIST", "t": "NGRAM"}
VECTORS = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4},
    "IVF_HNSW_SQ": {},
    "IVF_RQ": {},
}


def data() -> pa.Table:
    draw = np.random.default_rng(4)
    words, share = [f"w{number}" for number in range(200)], 1 / np.arange(1, 201)
    vectors = draw.standard_normal(ROWS * DIMENSION).astype(np.float32)
    ids = draw.permutation(ROWS)
    return pa.table(
        {
            "id": ids,
            "cat": [None if one % 50 == 0 else f"c{one % 7}" for one in ids],
            "tags": [[f"t{one % 5}", f"t{one % 11}"] for one in ids],
            "t": [
                " ".join(draw.choice(words, draw.integers(1, 15), p=share / share.sum()))
                for _ in ids
            ],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSION),
        }
    )


def write(home: Path) -> None:
    rows = data()

    def made(name: str) -> lance.LanceDataset:
        path = str(home / f"{name}.lance")
        lance.write_dataset(rows, path, max_rows_per_file=800)
        return lance.dataset(path)

    scalar = made("scalar")
    for column, kind in SCALAR.items():
        scalar.create_scalar_index(column, kind)
    made("texts").create_scalar_index(
        "t", "INVERTED", with_position=True, stem=False, remove_stop_words=False
    )
    for kind, options in VECTORS.items():
        for metric in ("l2", "cosine"):
            dataset = made(f"{kind}-{metric}")
            dataset.create_index("v", kind, num_partitions=4, metric=metric, **options)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
