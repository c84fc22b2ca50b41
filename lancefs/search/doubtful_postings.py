"""Checking the postings of old indices, which may belong to other tokens, against some texts.

Releases of Lance up to 0.22 could write the postings of one token where those of another one belong
when a compaction moved rows ("full text search index may be corrupted after remapping", mended in
0.23). Files of the index do not show it, nor which release wrote them; the texts do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Ints, UInts
from lancefs.errors import CorruptFile
from lancefs.index.text.analyzers import Analyzer
from lancefs.index.text.partitions import Documents
from lancefs.index.text.unindexed_texts import texts_of

# Documents of a token that are looked up in the table, and how many of those found are read.
_LOOKED_FOR = 64
_READ = 8


class _Sample(NamedTuple):
    """Some documents of a token that are there: their rows, and how often they have it."""

    token: str
    row_ids: UInts
    frequencies: Ints


def check_postings(
    documents: Documents,
    wanted: Iterable[str],
    locate: Callable[[UInts], tuple[Ints, UInts]],
    read: Callable[[UInts], pa.Array],
    analyzer: Analyzer,
) -> None:
    """Compare some postings of tokens with texts.

    Args:
        documents: The documents, with their postings.
        wanted: The tokens.
        locate: Tells which of some row numbers are rows that are there, and their row ids.
        read: Reads the texts of rows.
        analyzer: Makes tokens of texts.

    Raises:
        CorruptFile: A text has a token more or less often than its postings tell, or no text is
            left to be compared.
    """
    samples = list(_samples(documents, wanted, locate))
    row_ids = np.concatenate([np.empty(0, np.uint64), *(one.row_ids for one in samples)])
    if not len(row_ids):
        return
    texts = iter(texts_of(read(row_ids)))
    for token, own, frequencies in samples:
        for row_id, frequency in zip(own.tolist(), frequencies.tolist(), strict=True):
            text = next(texts)
            if text is None or analyzer.words(text).count(token) != frequency:
                raise CorruptFile(
                    f"the text of the row {row_id} does not have {token!r} {frequency} times, as "
                    "the index tells; build the index anew"
                )


def _samples(
    documents: Documents,
    wanted: Iterable[str],
    locate: Callable[[UInts], tuple[Ints, UInts]],
) -> Iterator[_Sample]:
    for token, postings in documents.postings(sorted(wanted)).items():
        if not len(postings.documents):
            # Its last rows are left out, or these postings are those of another token.
            raise CorruptFile(f"a compaction left no row with {token!r}, as the index tells")
        some = _spread(len(postings.documents), _LOOKED_FOR)
        which, row_ids = locate(documents.row_numbers[postings.documents[some]])
        chosen = _spread(len(which), _READ)
        frequencies = postings.frequencies[some[which[chosen]]].astype(np.int64)
        yield _Sample(token, row_ids[chosen], frequencies)


def _spread(count: int, most: int) -> Ints:
    """Return places of a list, far from each other."""
    return np.arange(count)[:: -(-count // most) or 1]
