"""Comparing vectors: squared differences, dot products and Hamming distances.

Sums of floats depend on their order. Here 16 sums are kept apart, of which each takes every 16th
number of a vector, and are added by halves in the end: an order that instructions for several
numbers follow, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lancefs.datafile.buffers import Array, Ints, UInts, empty
from lancefs.datafile.kernels.calls import Call, twin_of

_LANES = 16  # as LANES in vectors.c
_BITS_SET = np.array([number.bit_count() for number in range(256)], np.uint8)
# Bytes that are counted at a time, each of which takes several more for a while.
_AT_ONCE = 256 * 1024


def compare_floats(vectors: Array, queries: Array, is_product: bool) -> Array:
    """Compare vectors with queries.

    Args:
        vectors: A vector a row (float32).
        queries: A query a row (float32).
        is_product: Whether products are wanted, in place of squares of distances.

    Returns:
        What is wanted of each vector (float32), in a row for each query.
    """
    found = np.empty((len(queries), len(vectors)), np.float32)
    for query, row in zip(queries, found, strict=True):
        row[:] = _sums(vectors, query, is_product)
    return found


def multiply_codes(codes: Array, queries: Array) -> Array:
    """Multiply vectors of bytes with queries.

    Args:
        codes: A vector a row (uint8).
        queries: A query a row (float32).

    Returns:
        The product of each vector with each query (float32), in a row for each query.
    """
    found = np.empty((len(queries), len(codes)), np.float32)
    for query, row in zip(queries, found, strict=True):
        row[:] = _sums(codes, query, is_product=True)
    return found


def _sums(vectors: Array, query: Array, is_product: bool) -> Array:
    lanes = np.zeros((len(vectors), _LANES), np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, vectors.shape[1], _LANES):
            part = vectors[:, start : start + _LANES].astype(np.float32)
            own = query[start : start + _LANES]
            terms = part * own if is_product else np.square(part - own)
            lanes[:, : terms.shape[1]] += terms
        while lanes.shape[1] > 1:
            half = lanes.shape[1] // 2
            lanes = lanes[:, :half] + lanes[:, half:]
    sums: Array = lanes[:, 0]
    return sums


def _of_queries(function: Callable[..., int], vectors: Array, queries: Array, *more: int) -> Array:
    """Return the numbers (float32) that a function of C finds of vectors, in a row a query.

    Args:
        function: It takes the vectors, the numbers of rows and of columns, the queries and their
            number, what more it needs, and the place for what it finds.
        vectors: A vector a row.
        queries: A query a row.
        *more: What more it needs.
    """
    (rows, dimension), count = vectors.shape, len(queries)
    assert queries.shape == (count, dimension)
    found = empty(count * rows, np.float32)
    function(vectors, rows, dimension, queries, count, *more, found)
    return found.reshape(count, rows)


@twin_of(compare_floats, "floats number number floats number number out")
def _compiled_compare_floats(call: Call, vectors: Array, queries: Array, is_product: bool) -> Array:
    assert vectors.dtype == queries.dtype == np.float32
    return _of_queries(call, vectors, queries, int(is_product))


@twin_of(multiply_codes, "bytes number number floats number out")
def _compiled_multiply_codes(call: Call, codes: Array, queries: Array) -> Array:
    assert codes.dtype == np.uint8
    assert queries.dtype == np.float32
    return _of_queries(call, codes, queries)


def compare_codes(codes: Array, queries: Array) -> Array:
    """Return the square of the distance of each vector of bytes to each query.

    Args:
        codes: A vector a row (uint8).
        queries: A query a row (uint8).

    Returns:
        The squares, which are whole numbers, as float32, in a row for each query.
    """
    found = np.empty((len(queries), len(codes)), np.float32)
    step = max(1, _AT_ONCE // max(1, codes.shape[1]))
    for start in range(0, len(codes), step):
        part = codes[start : start + step].astype(np.int64)
        for query, row in zip(queries, found, strict=True):
            row[start : start + step] = np.square(part - query).sum(axis=1)
    return found


@twin_of(compare_codes, "bytes number number bytes number out")
def _compiled_compare_codes(call: Call, codes: Array, queries: Array) -> Array:
    assert codes.dtype == queries.dtype == np.uint8
    return _of_queries(call, codes, queries)


def differing_bits(vectors: Array, queries: Array) -> Array:
    """Count the bits in which vectors differ from queries.

    Args:
        vectors: A vector a row (uint8).
        queries: A query a row (uint8).

    Returns:
        The number of bits for each vector (float32), in a row for each query.
    """
    found = np.empty((len(queries), len(vectors)), np.float32)
    step = max(1, _AT_ONCE // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), step):
        part = vectors[start : start + step]
        for query, row in zip(queries, found, strict=True):
            row[start : start + step] = _BITS_SET[part ^ query].sum(axis=1, dtype=np.int64)
    return found


@twin_of(differing_bits, "bytes number number bytes number out")
def _compiled_differing_bits(call: Call, vectors: Array, queries: Array) -> Array:
    assert vectors.dtype == queries.dtype == np.uint8
    return _of_queries(call, vectors, queries)


def widen_halves(halves: Array) -> Array:
    """Return numbers of 16 bits (float16), contiguous ones, as numbers of 32 (float32)."""
    return halves.astype(np.float32)


@twin_of(widen_halves, "levels number out")
def _compiled_widen_halves(call: Call, halves: Array) -> Array:
    assert halves.dtype == np.float16
    found = empty(halves.size, np.float32)
    call(np.ascontiguousarray(halves).view(np.uint16), halves.size, found)
    return found.reshape(halves.shape)


def keep_nearest(
    distances: Array, numbers: UInts, kept: Array, kept_numbers: UInts, sizes: Ints
) -> tuple[Array, UInts, Ints]:
    """Put vectors among the nearest ones of several queries.

    Args:
        distances: The distances of the vectors (float32), in a row for each query; those that are
            NaN are left out.
        numbers: The numbers of the vectors (uint64).
        kept: The distances of the nearest vectors so far, in a row for each query: ascending, with
            room for as many as are wanted, which is one at least.
        kept_numbers: Their numbers; those of one distance are ascending.
        sizes: How many there are, for each query.

    Returns:
        The same of the nearest vectors of both, as new arrays. What follows them is unchanged.
    """
    kept, kept_numbers, sizes = kept.copy(), kept_numbers.copy(), sizes.copy()
    for query, own in enumerate(distances):
        is_number, size = ~np.isnan(own), int(sizes[query])
        found = np.concatenate([kept[query, :size], own[is_number]])
        of = np.concatenate([kept_numbers[query, :size], numbers[is_number]])
        order = np.lexsort((of, found))[: kept.shape[1]]
        kept[query, : len(order)], kept_numbers[query, : len(order)] = found[order], of[order]
        sizes[query] = len(order)
    return kept, kept_numbers, sizes


@twin_of(keep_nearest, "floats bytes number number number out out out")
def _compiled_keep_nearest(
    call: Call, distances: Array, numbers: UInts, kept: Array, kept_numbers: UInts, sizes: Ints
) -> tuple[Array, UInts, Ints]:
    count, rows = distances.shape
    assert kept.shape == kept_numbers.shape == (count, kept.shape[1])
    assert numbers.shape == (rows,)
    assert sizes.shape == (count,)
    assert numbers.dtype == kept_numbers.dtype == np.uint64
    assert sizes.dtype == np.int64
    assert kept.dtype == np.float32
    kept, kept_numbers, sizes = kept.copy(), kept_numbers.copy(), sizes.copy()
    call(distances, numbers, rows, count, kept.shape[1], kept, kept_numbers, sizes)
    return kept, kept_numbers, sizes
