"""Every version of every table that pylance writes reads as pylance reads it.

Tables are random: types, nesting, nulls, sizes, encodings, and what happens to them. The fast
profile runs the same examples each time; the slow one draws new ones, and more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st

import lancefs
from agreement import oracle
from agreement.columns import Column, Format, columns
from agreement.operations import Operation, Writer, operations
from agreement.oracle import Refused, ask
from agreement.outlines import assert_outlines_tell
from agreement.readers import assert_agree
from agreement.validity import assert_validity_tells

FORMATS = pytest.mark.parametrize(
    "format_",
    [
        Format("0.1", False, False, False, encodings=False, required=False, faithful=False),
        Format("2.0", False, False, False, faithful=False),
        Format("2.1", False, False, False),
        Format("2.2"),
        Format("2.3"),
    ],
    ids=str,
)
EXAMPLES = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
    print_blob=True,
)
ROWS = st.sampled_from([0, 1, 5, 50, 700, 3000])
ROWS_PER_FILE = st.sampled_from([1_000_000, 1000, 333])
PAGE_BYTES = st.sampled_from([None, None, 4096, 1 << 16])
# The same examples each time.
FAST = settings(EXAMPLES, derandomize=True, database=None)


@dataclass(frozen=True)
class History:
    """A table, and what happens to it."""

    columns: list[Column]
    rows: int
    rows_per_file: int
    page_bytes: int | None
    stable_row_ids: bool
    changes: list[Operation]
    seed: int


def histories(format_: Format) -> st.SearchStrategy[History]:
    """Random histories of tables in a format."""
    return st.builds(
        History,
        columns=columns(format_),
        rows=ROWS,
        rows_per_file=ROWS_PER_FILE,
        page_bytes=PAGE_BYTES,
        stable_row_ids=st.booleans(),
        changes=operations(format_),
        seed=st.integers(0, 99),
    )


@dataclass(frozen=True)
class Columns:
    """Columns as they are written, once."""

    columns: list[Column]
    rows: int
    rows_per_file: int
    page_bytes: int | None
    seed: int


def written_columns(format_: Format) -> st.SearchStrategy[Columns]:
    """Random columns, with nothing else that happens to them."""
    return st.builds(
        Columns,
        columns=columns(format_),
        rows=ROWS,
        rows_per_file=ROWS_PER_FILE,
        page_bytes=PAGE_BYTES,
        seed=st.integers(0, 99),
    )


@FORMATS
def test_random_columns_read_as_they_were_written(format_: Format) -> None:
    _check_columns(format_, settings(FAST, max_examples=15))


@FORMATS
def test_a_random_table_reads_alike_in_every_version(format_: Format) -> None:
    _check_histories(format_, settings(FAST, max_examples=10))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@FORMATS
def test_many_random_columns_read_as_they_were_written(format_: Format) -> None:
    _check_columns(format_, settings(EXAMPLES, max_examples=250))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@FORMATS
def test_many_random_tables_read_alike_in_every_version(format_: Format) -> None:
    _check_histories(format_, settings(EXAMPLES, max_examples=60))


@FORMATS
def test_outlines_of_random_tables_tell_what_values_do(format_: Format) -> None:
    _check_told(assert_outlines_tell, format_, settings(FAST, max_examples=15))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@FORMATS
def test_outlines_of_many_random_tables_tell_what_values_do(format_: Format) -> None:
    _check_told(assert_outlines_tell, format_, settings(EXAMPLES, max_examples=150))


@FORMATS
def test_which_values_are_missing_reads_alike_without_the_values(format_: Format) -> None:
    _check_told(assert_validity_tells, format_, settings(FAST, max_examples=18))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@FORMATS
def test_many_columns_are_missing_alike_without_their_values(format_: Format) -> None:
    _check_told(assert_validity_tells, format_, settings(EXAMPLES, max_examples=150))


def _check_columns(format_: Format, how: settings) -> None:
    @how
    @given(written_columns(format_))
    def run(drawn: Columns) -> None:
        with tempfile.TemporaryDirectory() as directory:
            rng = np.random.default_rng(drawn.seed)
            writer = Writer(str(Path(directory) / "t.lance"), format_, rng)
            written = _create(writer, drawn)
            try:
                read = assert_agree(writer.uri, 1, rng)
            except Refused as refused:
                event(f"not read: {refused}"[:90])
                read = lancefs.open(writer.uri).to_table()
            if format_.faithful:
                kept = [column.field.name for column in drawn.columns if column.as_written]
                assert_same_table(read.select(["id", *kept]), written.select(["id", *kept]))

    run()


def _check_histories(format_: Format, how: settings) -> None:
    @how
    @given(histories(format_))
    def run(history: History) -> None:
        with _written(format_, history) as (uri, versions, rng):
            for version in versions:
                try:
                    assert_agree(uri, version, rng)
                except Refused as refused:
                    event(f"not read: {refused}"[:90])

    run()


def _check_told(
    told: Callable[[str, int, np.random.Generator], int], format_: Format, how: settings
) -> None:
    """Check what is told of the values of each version; `told` counts what it compares."""
    compared = []

    @how
    @given(histories(format_))
    def run(history: History) -> None:
        with _written(format_, history) as (uri, versions, rng):
            compared.extend(told(uri, one, rng) for one in versions)

    run()
    assert sum(compared) > 100


@contextmanager
def _written(
    format_: Format, history: History
) -> Iterator[tuple[str, list[int], np.random.Generator]]:
    """Let pylance write a table and change it; give where it is, its versions, and its source."""
    with tempfile.TemporaryDirectory() as directory:
        rng = np.random.default_rng(history.seed)
        writer = Writer(str(Path(directory) / "t.lance"), format_, rng)
        _create(writer, history, enable_stable_row_ids=history.stable_row_ids)
        _change(writer, history)
        versions = [known["version"] for known in oracle.open_table(writer.uri).versions()]
        yield writer.uri, versions, rng


def _create(writer: Writer, drawn: Columns | History, **options: Any) -> pa.Table:
    """Let pylance write a table; one that it refuses to write is no example."""
    with oracle.page_bytes(drawn.page_bytes):
        options["max_rows_per_file"] = drawn.rows_per_file
        try:
            return ask(writer.create, drawn.columns, drawn.rows, **options)
        except Refused as refused:
            event(f"not written: {refused}"[:90])
            reject()


def _change(writer: Writer, history: History) -> None:
    """Let pylance change a table; what it refuses to do does not happen."""
    with oracle.page_bytes(history.page_bytes):
        for change in history.changes:
            try:
                ask(change.apply, writer)
                event(f"done: {change.name}")
            except Refused as refused:
                event(f"refused: {change.name}, {refused}"[:90])
