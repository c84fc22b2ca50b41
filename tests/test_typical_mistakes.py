"""What callers get wrong most: each error names what is wrong, and what to do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import ORDERS

import lancefs
from lancefs.errors import ColumnNotFound, InvalidFilter, NoSuchPath, NotALanceTable


def _opened() -> Any:
    return lancefs.open(ORDERS)


MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: lancefs.open(None), TypeError, "url is None; the path or URL of a table was"),  # type: ignore[arg-type]
    (lambda: lancefs.open(ORDERS, version="prod"), ValueError, "the argument for tags is tag"),
    (
        lambda: lancefs.open("s33://bucket/t.lance"),
        ValueError,
        "s33://bucket/t.lance: fsspec knows no protocol 's33'; did you mean s3://?",
    ),
    (
        lambda: lancefs.open("nosuch://bucket/t.lance"),
        ValueError,
        "fsspec knows no protocol 'nosuch'; install the package of the store",
    ),
    (
        lambda: lancefs.open(Path("s3://bucket/t.lance")),
        NotALanceTable,
        "did you mean s3://bucket/t.lance? A URL is no path",
    ),
    (lambda: _opened().to_table(columns=True), TypeError, "columns is True; a list of names"),
    (
        lambda: _opened().to_table(columns=["price + 1"]),
        ColumnNotFound,
        "no column 'price + 1'; an expression is one of pyarrow.compute: columns={'x':",
    ),
    (
        lambda: _opened().to_table(with_row_id="yes"),
        TypeError,
        "with_row_id is 'yes'; True or False was expected",
    ),
    (lambda: _opened().to_table(use_index="no"), TypeError, "use_index is 'no'; True or False"),
    (lambda: lancefs.open(ORDERS, mmap="no"), TypeError, "mmap is 'no'; True or False"),  # type: ignore[arg-type]
    (lambda: lancefs.open(ORDERS, fresh="no"), TypeError, "fresh is 'no'; True or False"),  # type: ignore[arg-type]
    (
        lambda: lancefs.open(ORDERS, base_paths=3),  # type: ignore[arg-type]
        TypeError,
        "base_paths is 3; a mapping of old to new locations was expected",
    ),
    (
        lambda: fsspec.filesystem("lance", fo=ORDERS, mmap="false"),
        TypeError,
        "mmap is 'false'; True or False was expected",
    ),
    (
        lambda: _opened().to_table(columns={1: "city"}),
        TypeError,
        "columns has 1 as the name of a column; a text was expected",
    ),
    (
        lambda: _opened().to_table(filter=_opened().to_table()["price"]),
        TypeError,
        "filter is a ChunkedArray; SQL text",
    ),
    (
        lambda: _opened().to_table(filter=pc.field("price")),
        InvalidFilter,
        "the filter price is decimal128(8, 2) for a row; a condition was expected",
    ),
    (
        lambda: _opened().count_rows(filter=pc.field("quantity")),
        InvalidFilter,
        "the filter quantity is int16 for a row; a condition was expected",
    ),
    (lambda: _opened().take([5000]), IndexError, "there is no row 5000 of"),
    (lambda: _opened().take(["a"]), TypeError, "positions are whole numbers, not str"),
    (
        lambda: _opened().take(np.array([True, False])),
        TypeError,
        "not bool; numpy.flatnonzero(mask) has the positions of a mask",
    ),
    (
        lambda: _opened().to_table(filter=pc.field("quantity") > "a"),
        pa.ArrowNotImplementedError,
        "quantity is int16: give constants of a type that goes with it, or cast the column",
    ),
    (lambda: _opened().to_table(filter="city = 3"), InvalidFilter, "; a text stands in single"),
    (lambda: lancefs.open(ORDERS, version=7.0), ValueError, "7.0 is not a version: a whole number"),
    (
        lambda: fsspec.open(f"lance://versions/2.parquet::file://{ORDERS}").open(),
        NoSuchPath,
        "did you mean 2.arrow?",
    ),
    (lambda: _opened().append(pa.table({"a": [1]})), AttributeError, "only reads; write with"),
    (
        lambda: lancefs.sql(f"from lance_scan('{ORDERS}', storage_options := 'x')"),
        duckdb.Error,
        "storage_options is a str; a mapping was expected",
    ),
    (
        lambda: fsspec.open(f"lance://latest.parquet::file://{ORDERS}").open(),
        NoSuchPath,
        "did you mean latest.arrow?",
    ),
    (
        lambda: fsspec.open(f"lance://columns/city.arrow::file://{ORDERS}").open(),
        NoSuchPath,
        "did you mean latest/columns?",
    ),
    (
        lambda: fsspec.open(f"lance://changes/3..1.arrow::file://{ORDERS}").open(),
        NoSuchPath,
        "did you mean changes/1..3.arrow?",
    ),
]


@pytest.mark.parametrize(("mistake", "error", "text"), MISTAKES, ids=[one[2] for one in MISTAKES])
def test_the_error_says_what_is_wrong_and_what_to_do(
    mistake: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=re.escape(text)):
        mistake()


@pytest.mark.parametrize("spelled", ["my%20tables/orders.lance", r"my tables\orders.lance"])
def test_a_path_in_the_spelling_of_urls_or_windows_is_found(tmp_path: Path, spelled: str) -> None:
    (tmp_path / "my tables" / "orders.lance").mkdir(parents=True)
    meant = re.escape(f"did you mean {tmp_path}/my tables/orders.lance?")
    with pytest.raises(NotALanceTable, match=meant):
        lancefs.open(f"file://{tmp_path}/{spelled}")


def test_a_table_of_a_similar_name_in_an_archive_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    shutil.copytree(ORDERS, folder / "orders.lance")
    for kind, format in (("zip", "zip"), ("tar", "gztar")):
        archive = shutil.make_archive(str(tmp_path / "lake"), format, folder, "orders.lance")
        with pytest.raises(NotALanceTable, match=r"order\.lance: .*did you mean orders\.lance\?"):
            lancefs.open(f"{kind}://order.lance::{archive}")


def test_dask_is_told_what_to_take_in_place_of_the_files_of_a_dataset() -> None:
    with pytest.raises(AttributeError, match=r"Dask takes list\(dataset.get_fragments\(\)\)"):
        _ = _opened().files
