"""Indices of one file, as Lance wrote IVF_PQ up to 0.21: the same distances, and damage refused."""

from __future__ import annotations

import struct
from pathlib import Path

import lance
import numpy as np
import pytest
from support import local_store
from vector_tables import rows, write

from lancefs.errors import LanceError
from lancefs.index.files import IndexReader
from lancefs.index.vectors.one_file import OneFile, is_one_file, metric_of
from lancefs.index.vectors.partitions import VectorPartitions
from lancefs.index.vectors.tensors import read_tensor
from lancefs.index.vectors.two_files import FILES, TwoFiles
from lancefs.proto import vectors_pb2

METRICS = {"l2": 0, "cosine": 1, "dot": 2}
QUERY = np.random.default_rng(2).normal(0, 3, 8).astype(np.float32)


def two_files(path: Path, metric: str) -> tuple[TwoFiles, IndexReader]:
    """An index of pylance, open, and its file of vectors."""
    write(path, rows(600, 8))
    lance.dataset(path).create_index(
        "v", "IVF_PQ", metric=metric, num_partitions=2, num_sub_vectors=4
    )
    (folder,) = path.glob("_indices/*")
    index, vectors = (IndexReader(local_store(folder).file(name)) for name in FILES)
    return TwoFiles(index, vectors), vectors


def tensor(values: np.ndarray) -> vectors_pb2.Tensor:  # type: ignore[type-arg]
    return vectors_pb2.Tensor(
        data_type=vectors_pb2.Tensor.FLOAT32, shape=values.shape, data=values.tobytes()
    )


def as_one_file(contents: TwoFiles, vectors: IndexReader, metric: str) -> bytes:
    """The same index as releases up to 0.21 laid it out."""
    parts = [
        partition.codes.T.tobytes() + partition.numbers.tobytes()
        for partition in contents.read(range(len(contents.lengths)))
    ]
    sizes = np.cumsum([0, *map(len, parts)])
    ivf = vectors_pb2.IVF(
        offsets=sizes[:-1].tolist(),
        lengths=contents.lengths.tolist(),
        centroids_tensor=tensor(contents.centroids),
    )
    codes = vectors_pb2.PQ(
        num_bits=8, num_sub_vectors=4, dimension=8, codebook_tensor=tensor(read_tensor(vectors, 2))
    )
    stages = [vectors_pb2.VectorIndexStage(ivf=ivf), vectors_pb2.VectorIndexStage(pq=codes)]
    described = vectors_pb2.VectorIndex(
        spec_version=1,
        dimension=8,
        stages=stages,
        metric_type=METRICS[metric],  # type: ignore[arg-type]
    )
    message = vectors_pb2.Index(name="v_idx", vector_index=described).SerializeToString()
    end = struct.pack("<I", len(message)) + message
    return b"".join(parts) + end + struct.pack("<QHH4s", sizes[-1], 0, 1, b"LANC")


@pytest.mark.parametrize("metric", METRICS)
def test_an_index_of_one_file_tells_the_distances_of_one_of_two(
    tmp_path: Path, metric: str
) -> None:
    contents, vectors = two_files(tmp_path / "t.lance", metric)
    (tmp_path / "one.idx").write_bytes(as_one_file(contents, vectors, metric))
    file = local_store(tmp_path).file("one.idx")
    assert is_one_file(file)
    assert metric_of(file) == metric
    one, two = VectorPartitions(OneFile(file), "one"), VectorPartitions(contents, "two")
    queries = one.normalized(QUERY[None])
    assert all(map(np.array_equal, one.nearest(queries)[0], two.nearest(queries)[0]))
    asked = {0: [0], 1: [0]}
    for mine, other in zip(one.compare(queries, asked), two.compare(queries, asked), strict=True):
        assert all(map(np.array_equal, mine, other))


def test_damage_to_an_index_of_one_file_is_refused(tmp_path: Path) -> None:
    contents, vectors = two_files(tmp_path / "t.lance", "l2")
    sound = as_one_file(contents, vectors, "l2")
    draw, refused = np.random.default_rng(0), 0
    places = [*range(len(sound) - 16, len(sound)), *draw.integers(0, len(sound), 100).tolist()]
    for number, at in enumerate(places):
        mutant = bytearray(sound)
        mutant[at] ^= int(draw.integers(1, 256))
        name = f"mutant-{number}.idx"
        (tmp_path / name).write_bytes(
            mutant[: draw.integers(0, len(sound))] if at % 9 == 0 else mutant
        )
        try:
            opened = VectorPartitions(OneFile(local_store(tmp_path).file(name)), name)
            asked = {partition: [0] for partition in range(opened.num_partitions)}
            for _, numbers, distances in opened.compare(QUERY[None], asked):
                assert distances.shape == (1, len(numbers))
        except LanceError:
            refused += 1
    assert refused > 10
