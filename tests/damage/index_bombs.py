"""Files of indices of few bytes that expand to gigabytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pyroaring
from files_v2 import ColumnOf, PageOf, open_container, write_file
from support import rewrite_index_section

from damage.forged_pages import (
    MANY,
    Builder,
    adding_to,
    constant_page,
    strings,
    values_page,
)
from lancefs.proto import table_pb2

# What is in a file instead: the pages of each column, and the number of rows.
Forged = tuple[Sequence[Sequence[PageOf]], int]
BOMBS: dict[str, Builder] = {}
bomb = adding_to(BOMBS)


def write_index(path: Path, kind: str, column: pa.Array, forged: Mapping[str, Forged]) -> None:
    """Write a table of one column with an index, some files of which are other ones.

    Args:
        path: The table.
        kind: Of the index.
        column: The values.
        forged: For each file, by a pattern of its name, what it has instead.
    """
    dataset = lance.write_dataset(pa.table({"a": column}), str(path))
    dataset.create_scalar_index("a", kind)
    (directory,) = (path / "_indices").iterdir()
    for pattern, (columns, rows) in forged.items():
        (file,) = directory.glob(pattern)
        schema = open_container(file).descriptor().schema
        write_file(file, [ColumnOf(pages) for pages in columns], rows, schema=schema)

    def tell_sizes(section: table_pb2.IndexSection) -> None:
        for one in section.indices[0].files:
            one.size_bytes = (directory / one.path).stat().st_size

    rewrite_index_section(path, tell_sizes)


def bytes_page(value: bytes) -> PageOf:
    """A page of one value."""
    return values_page(1, strings(), struct.pack("<QQ", 16, 16 + len(value)) + value)


def constant_columns(*values: bytes) -> list[list[PageOf]]:
    """Columns that repeat a value in all rows that a file may have."""
    return [[constant_page(MANY, value)] for value in values]


def all_rows() -> bytes:
    """A bitmap of all rows of a fragment."""
    bitmap = pyroaring.BitMap()
    bitmap.add_range(0, MANY)
    bitmap.run_optimize()
    return bitmap.serialize()


@bomb
def a_bitmap_index_of_all_rows(path: Path) -> None:
    rows = struct.pack("<III", 1, 0, len(all_rows())) + all_rows()
    columns = [[constant_page(1)], [bytes_page(rows)]]
    write_index(path, "BITMAP", pa.array([0]), {"bitmap_page_lookup.lance": (columns, 1)})


@bomb
def an_ngram_index_of_all_rows(path: Path) -> None:
    rows = struct.pack("<QI", 1, 0) + all_rows()
    token = (11 * 37 + 11) * 37 + 11  # "aaa": letters come behind nothing and ten digits
    columns = [[constant_page(1, token.to_bytes(4, "little"))], [bytes_page(rows)]]
    write_index(path, "NGRAM", pa.array(["aaa"]), {"ngram_postings.lance": (columns, 1)})


@bomb
def a_bitmap_index_of_many_values(path: Path) -> None:
    columns = constant_columns(bytes(8), b"")
    write_index(path, "BITMAP", pa.array([0]), {"bitmap_page_lookup.lance": (columns, MANY)})


@bomb
def a_btree_of_many_pages(path: Path) -> None:
    pages = constant_columns(bytes(8), bytes(8), bytes(4), bytes(4))
    values = constant_columns(bytes(8), bytes(8))
    forged = {"page_lookup.lance": (pages, MANY), "page_data.lance": (values, MANY)}
    write_index(path, "BTREE", pa.array([0]), forged)


@bomb
def a_btree_of_one_page(path: Path) -> None:
    values = constant_columns(bytes(8), bytes(8))
    write_index(path, "BTREE", pa.array([0]), {"page_data.lance": (values, MANY)})


@bomb
def zones_without_end(path: Path) -> None:
    numbers = [bytes(8), bytes(8), bytes(4), bytes(4), bytes(8), bytes(8), bytes(8)]
    columns = constant_columns(*numbers)
    write_index(path, "ZONEMAP", pa.array([0]), {"zonemap.lance": (columns, MANY)})


@bomb
def a_text_index_of_many_documents(path: Path) -> None:
    columns = constant_columns(bytes(8), bytes(4))
    write_index(path, "INVERTED", pa.array(["word"]), {"*_docs.lance": (columns, MANY)})
