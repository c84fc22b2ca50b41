"""Scores of all documents of a partition, from the postings of the tokens of a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.buffers import Array
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.errors import CorruptFile


def sum_scores(
    postings: Sequence[tuple[Array, Array]],
    factors: Sequence[np.float32],
    norms: Array,
    saturation: np.float32,
) -> Array:
    """Sum what tokens add to the scores of documents, token after token, with 32 bits.

    A document with frequency f and norm n gets the factor of the token times s * f / (f + n).

    Args:
        postings: For each token its documents, ascending, and how often each of them has it
            (both uint32).
        factors: The factor of each token.
        norms: The norm of each document (float32).
        saturation: The number s.

    Returns:
        The score of each document (float32); 0 for one without a token.

    Raises:
        CorruptFile: There is no such document.
    """
    total = np.zeros(len(norms), np.float32)
    for (documents, frequencies), factor in zip(postings, factors, strict=True):
        if len(documents) and documents.max() >= len(norms):
            raise CorruptFile(f"document {documents.max()} of a token, of {len(norms)} documents")
        counts = frequencies.astype(np.float32)
        total[documents] += factor * (saturation * counts / (counts + norms[documents]))
    return total


@twin_of(sum_scores, "bytes bytes number floats floats number out", "add_scores")
def _compiled_sum_scores(
    call: Call,
    postings: Sequence[tuple[Array, Array]],
    factors: Sequence[np.float32],
    norms: Array,
    saturation: np.float32,
) -> Array:
    total = np.zeros(len(norms), np.float32)
    for (documents, frequencies), factor in zip(postings, factors, strict=True):
        assert documents.dtype == frequencies.dtype == np.uint32
        assert len(documents) == len(frequencies)
        numbers = np.array([factor, saturation], np.float32)
        call(documents, frequencies, len(documents), numbers, norms, len(norms), total)
    return total
