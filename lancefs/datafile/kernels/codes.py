"""Distances of product-quantized codes: sums of the table entries that codes select."""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Array, empty
from lancefs.datafile.kernels.calls import Call, twin_of


def compare_parts(codebook: Array, vectors: Array, is_product: bool) -> Array:
    """Compare the parts of vectors with all codes.

    Args:
        codebook: The numbers of the codes (float32): for each number of a part, and each part, a
            row of those of all codes.
        vectors: A vector a row (float32): its parts follow each other.
        is_product: Whether products are wanted, in place of squares of distances.

    Returns:
        What is wanted of each part and code of each vector, shape (vectors, parts, codes), added
        number after number.
    """
    length, parts, codes = codebook.shape
    tables = np.zeros((len(vectors), parts, codes), np.float32)
    with np.errstate(all="ignore"):
        for table, vector in zip(tables, vectors, strict=True):
            for book, rest in zip(codebook, vector.reshape(parts, length).T, strict=True):
                table += book * rest[:, None] if is_product else np.square(book - rest[:, None])
    return tables


@twin_of(compare_parts, "floats number number number floats number number out")
def _compiled_compare_parts(call: Call, codebook: Array, vectors: Array, is_product: bool) -> Array:
    (length, parts, codes), count = codebook.shape, len(vectors)
    assert vectors.shape == (count, parts * length)
    assert codebook.dtype == vectors.dtype == np.float32
    tables = empty(count * parts * codes, np.float32)
    call(codebook, length, parts, codes, vectors, count, int(is_product), tables)
    return tables.reshape(count, parts, codes)


def sum_codes(tables: Array, codes: Array) -> Array:
    """Sum for each row the numbers that its codes choose, for each of several queries.

    Args:
        tables: For each query and each part, a row of 256 numbers (float32).
        codes: A row of codes (uint8) for each part: one for each row.

    Returns:
        The sums (float32), added part after part, in a row for each query.
    """
    sums = np.zeros((len(tables), codes.shape[1]), np.float32)
    for own, row in zip(tables, sums, strict=True):
        for table, part in zip(own, codes, strict=True):
            row += table[part]
    return sums


@twin_of(sum_codes, "floats number number bytes number out")
def _compiled_sum_codes(call: Call, tables: Array, codes: Array) -> Array:
    count, (parts, rows) = len(tables), codes.shape
    assert tables.shape == (count, parts, 256)
    sums = empty(count * rows, np.float32)
    call(tables, count, parts, codes, rows, sums)
    return sums.reshape(count, rows)
