"""RaBitQ codes of releases before 14, which no writer of the tests makes: made here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from vector_tables import vector_array

from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.index.vectors.rabitq import RotatedCodes
from lancefs.proto import vectors_pb2

DRAW = np.random.default_rng(6)


@dataclass
class DescribedFile:
    """What is asked of a file: how vectors are stored, and a buffer."""

    description: dict[str, Any]
    matrix: np.ndarray[Any, Any] | None = None
    url: str = "memory"

    @property
    def metadata(self) -> dict[str, bytes]:
        return {"storage_metadata": json.dumps([json.dumps(self.description)]).encode()}

    def buffer(self, number: int) -> bytes:
        assert number == 2
        assert self.matrix is not None
        values = self.matrix.astype(np.float32)
        return vectors_pb2.Tensor(
            data_type=vectors_pb2.Tensor.FLOAT32, shape=values.shape, data=values.tobytes()
        ).SerializeToString()

    def damage(self, what: str) -> CorruptFile:
        return CorruptFile(what)

    def unsupported(self, what: str) -> UnsupportedFeature:
        return UnsupportedFeature(what)


def by_matrix(dimension: int) -> DescribedFile:
    matrix, _ = np.linalg.qr(DRAW.normal(size=(dimension, dimension)))
    description = {"rotate_mat_position": 2, "num_bits": 1, "packed": False}
    return DescribedFile(description, matrix)


def by_signs(dimension: int) -> DescribedFile:
    signs = DRAW.integers(0, 256, 4 * -(-dimension // 8)).tolist()
    description = {
        "rotate_mat_position": None,
        "fast_rotation_signs": signs,
        "rotation_type": "fast",
        "code_dim": dimension,
        "num_bits": 1,
        "packed": False,
    }
    return DescribedFile(description)


@pytest.mark.parametrize("metric", ["l2", "dot"])
@pytest.mark.parametrize("dimension", [16, 32, 48])
@pytest.mark.parametrize("make", [by_matrix, by_signs])
def test_vectors_that_are_all_sign_have_exact_distances(
    make: Any, dimension: int, metric: Any
) -> None:
    stored = RotatedCodes(make(dimension), metric, dimension)
    rotation = stored._rotation.rotate(np.eye(dimension)).T
    centroid = DRAW.normal(size=dimension).astype(np.float32)
    bits = DRAW.integers(0, 2, (50, dimension))
    sizes = DRAW.uniform(0.5, 2, 50)
    rest = (sizes[:, None] * (2 * bits - 1)) @ rotation  # rotated back
    vectors = centroid + rest
    squares = (rest**2).sum(1)
    # The factors of the estimate: exact where all rotated numbers are of one size.
    step = -np.sqrt(dimension) * squares / (dimension * sizes)
    if metric == "l2":
        added, scales = squares, 2 * step
    else:
        added, scales = 1 - rest @ centroid, step
    columns = [
        vector_array(np.packbits(bits, axis=1, bitorder="little"), None),
        pa.array(added.astype(np.float32)),
        pa.array(scales.astype(np.float32)),
    ]
    queries = DRAW.normal(size=(3, dimension)).astype(np.float32)
    found = stored.comparing(queries)(centroid, stored.codes(columns), [2, 0])
    for query, row in zip(queries[[2, 0]], found, strict=True):
        exact = ((vectors - query) ** 2).sum(1) if metric == "l2" else 1 - vectors @ query
        np.testing.assert_allclose(row, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"layered": True}, UnsupportedFeature),
        ({"query_estimator": "other"}, UnsupportedFeature),
        ({"num_bits": 5}, UnsupportedFeature),
        ({"num_bits": 0}, CorruptFile),
        ({"code_dim": 17}, UnsupportedFeature),
        ({"rotation_type": "wheel"}, UnsupportedFeature),
        ({"fast_rotation_signs": [1, 2]}, CorruptFile),
        ({"fast_rotation_signs": "none"}, CorruptFile),
        ({"fast_rotation_signs": 2**70}, CorruptFile),
        ({"fast_rotation_signs": 2**40}, CorruptFile),  # Python would make so many bytes
        ({"fast_rotation_signs": [256] * 8}, CorruptFile),
    ],
)
def test_codes_that_are_not_known_are_refused(
    change: dict[str, Any], error: type[Exception]
) -> None:
    file = by_signs(16)
    file.description |= change
    with pytest.raises(error):
        RotatedCodes(file, "l2", 16)  # type: ignore[arg-type]


def test_a_rotation_of_another_shape_is_damage() -> None:
    with pytest.raises(CorruptFile, match="shape"):
        RotatedCodes(by_matrix(8), "l2", 16)  # type: ignore[arg-type]
