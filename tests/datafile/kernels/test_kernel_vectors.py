"""Vectors are compared as plain sums of their numbers tell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from kernel_inputs import compiled_kernel, needs_library
from vector_inputs import bits_and_queries, codes_and_codes

from lancefs.datafile.kernels import vectors


@pytest.mark.parametrize("dimension", [1, 15, 16, 17, 64, 100])
@pytest.mark.parametrize("is_product", [False, True])
def test_floats_are_compared_about_as_exactly_as_they_can_be(
    dimension: int, is_product: bool
) -> None:
    draw = np.random.default_rng(dimension)
    rows, queries = (draw.normal(size=(n, dimension)).astype(np.float32) for n in (9, 2))
    found = vectors.compare_floats(rows, queries, is_product)
    assert found.shape == (2, 9)
    for query, own in zip(queries, found, strict=True):
        for row, number in zip(rows, own, strict=True):
            pairs = zip(row.tolist(), query.tolist(), strict=True)
            terms = [a * b if is_product else (a - b) ** 2 for a, b in pairs]
            assert float(number) == pytest.approx(math.fsum(terms), rel=1e-5, abs=1e-5)


@given(arguments=codes_and_codes())
def test_distances_of_bytes_are_whole_numbers(arguments: Any) -> None:
    codes, queries = arguments
    expected = [
        [
            np.float32(sum((a - b) ** 2 for a, b in zip(code, query, strict=True)))
            for code in codes.tolist()
        ]
        for query in queries.tolist()
    ]
    assert vectors.compare_codes(codes, queries).tolist() == expected


@given(arguments=bits_and_queries())
def test_bits_that_differ_are_counted(arguments: Any) -> None:
    rows, queries = arguments
    expected = [
        [float((int.from_bytes(row) ^ int.from_bytes(query)).bit_count()) for row in rows]
        for query in queries
    ]
    assert vectors.differing_bits(rows, queries).tolist() == expected


@needs_library
def test_every_number_of_16_bits_becomes_the_same_one_of_32() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = compiled_kernel("widen_halves")(halves)
    assert found.tobytes() == halves.astype(np.float32).tobytes()
