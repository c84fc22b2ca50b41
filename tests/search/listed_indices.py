"""Full-text indices as Lance 0.20 to 0.27 wrote them, in tables of the installed release.

The installed release cannot write them. Tables that 0.20, 0.23, 0.25 and 0.27 themselves wrote were
compared by hand, and the corpus has one of 0.27: their files have what is written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.file import LanceFileWriter
from support import rewrite_index_section
from text_tables import write

_TOKENIZER = {
    "base_tokenizer": "simple",
    "language": "English",
    "max_token_length": 40,
    "lower_case": True,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
}


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


@dataclass
class ListedIndex:
    """What the files of an index hold; a test may change it before they are written."""

    tokens: pa.Table
    documents: pa.Table
    postings: pa.Table
    offsets: Any  # a list of numbers
    tokenizer: Mapping[str, Any] | None = field(default_factory=lambda: _TOKENIZER)

    def write(self, folder: Path) -> None:
        """Write the files in place of those that are there."""
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        tokenizer = {} if self.tokenizer is None else {"tokenizer": json.dumps(self.tokenizer)}
        offsets = json.dumps(self.offsets)
        _write(folder / "tokens.lance", self.tokens, tokenizer)
        _write(folder / "docs.lance", self.documents, {})
        _write(folder / "invert.lance", self.postings, {"offsets": offsets})


def _write(path: Path, table: pa.Table, metadata: Mapping[str, str]) -> None:
    with LanceFileWriter(str(path), table.schema, version="2.0") as writer:
        writer.write_batch(table)
        for key, value in metadata.items():
            writer.add_schema_metadata(key, value)


def listed_index(documents: Mapping[int, Sequence[str]]) -> ListedIndex:
    """The index over documents: the words of each row."""
    every = sorted({word for own in documents.values() for word in own})
    numbered = sorted(every, key=lambda word: word[::-1])  # in an order of their own
    rows: list[int] = []
    places: list[list[int]] = []
    offsets: list[int] = []
    for word in numbered:
        offsets.append(len(rows))
        having = [row for row in sorted(documents) if word in documents[row]]
        rows += having
        places += [[at for at, one in enumerate(documents[row]) if one == word] for row in having]
    counts = pa.array([float(len(one)) for one in places], pa.float32())
    numbers = [numbered.index(word) for word in every]
    lengths = {row: len(documents[row]) for row in sorted(documents, reverse=True)}
    return ListedIndex(
        pa.table({"_token": every, "_token_id": pa.array(numbers, pa.uint32())}),
        pa.table(
            {
                "_rowid": pa.array(list(lengths), pa.uint64()),
                "_num_tokens": pa.array(list(lengths.values()), pa.uint32()),
            }
        ),
        pa.table(
            {
                "_rowid": pa.array(rows, pa.uint64()),
                "_frequency": counts,
                "_position": pa.array(places, pa.list_(pa.int32())),
            }
        ),
        offsets,
    )


def index_of(path: Path) -> ListedIndex:
    """The index of those releases over the column `t` of a table."""
    read = lance.dataset(str(path)).to_table(["t"], with_row_id=True).to_pylist()
    texts = {row["_rowid"]: row["t"] for row in read if row["t"] is not None}
    joined = {row: text if isinstance(text, str) else " ".join(text) for row, text in texts.items()}
    return listed_index({row: words(text) for row, text in joined.items()})


def write_listed(path: Path, table: pa.Table, **options: Any) -> ListedIndex:
    """Write a table with such an index; options are those of `text_tables.write`."""
    write(path, table, **options)
    made = index_of(path)
    made.write(folder_of(path))
    rewrite_index_section(path, lambda section: section.indices[0].ClearField("files"))
    return made


def folder_of(path: Path) -> Path:
    """Where the files of the one index of a table are."""
    (folder,) = (path / "_indices").iterdir()
    return folder
