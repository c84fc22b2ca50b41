"""Token maps of two columns, as Lance 0.30 writes them; later releases write transducers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter
from support import local_store
from text_tables import rows, write

from lancefs.errors import CorruptFile
from lancefs.index.files import IndexReader
from lancefs.index.text.partitions import (
    BlockPostings,
    TextPartition,
    read_documents,
    read_tokens,
)
from lancefs.index.text.postings import PostingFormat
from lancefs.index.text.token_maps import ListedTokens

WORDS = ["hous", "word1", "word2", "word33", "zurich"]


def partition(folder: Path, tokens: str, format: str) -> TextPartition:
    store = local_store(folder)
    names = ["part_0_docs.lance", tokens, "part_0_invert.lance"]
    documents, map, postings = (IndexReader(store.file(name)) for name in names)
    numbers, lengths = read_documents(documents)
    blocks = BlockPostings(postings, PostingFormat(128, "varint_delta_v1"), len(numbers))
    return TextPartition(numbers, lengths, read_tokens(map, format), blocks, str(folder) + format)


def test_tokens_are_found_as_in_a_transducer(tmp_path: Path) -> None:
    write(tmp_path / "t.lance", rows(300))
    (folder,) = (tmp_path / "t.lance" / "_indices").iterdir()
    known = partition(folder, "part_0_tokens.lance", "fst")
    numbers = {word: known._tokens.get(word) for word in WORDS}
    columns = [pa.array(list(numbers)), pa.array(list(numbers.values()), pa.uint32())]
    table = pa.table(columns, ["_token", "_token_id"])
    with LanceFileWriter(str(folder / "listed.lance"), table.schema) as writer:
        writer.write_batch(table)
    listed = partition(folder, "listed.lance", "arrow")
    expected, found = (one.postings([*WORDS, "nowhere"]) for one in (known, listed))
    assert list(found) == list(expected) == WORDS
    for word in WORDS:
        np.testing.assert_array_equal(found[word].documents, expected[word].documents)
        np.testing.assert_array_equal(found[word].frequencies, expected[word].frequencies)


def test_columns_of_other_types_are_damage() -> None:
    with pytest.raises(CorruptFile, match="tokens are int64"):
        ListedTokens(pa.array([1]), pa.array([1]))
    with pytest.raises(CorruptFile, match="and their numbers"):
        ListedTokens(pa.array(["a"]), pa.array([None], pa.string()))
