"""What errors say about bytes: damage is a `CorruptFile`, a bug or a full machine never is."""

from __future__ import annotations

import errno
import pickle
import struct
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import rewrite_manifest

import lancefs
from lancefs.errors import (
    ArrayTooLarge,
    ColumnNotFound,
    CorruptFile,
    MissingFile,
    NoSuchPath,
    locating,
)
from lancefs.proto import table_pb2

NO_DAMAGE = (
    TypeError("a bug"),
    KeyError("a bug"),
    IndexError("a bug"),
    ValueError("a bug"),
    ZeroDivisionError("a bug"),
    OverflowError("a bug"),
    MemoryError("no memory"),
    OSError(errno.EMFILE, "too many open files"),
    pa.ArrowTypeError("a bug"),
    pa.ArrowKeyError("a bug"),
    pa.ArrowIndexError("a bug"),
    pa.ArrowNotImplementedError("a gap"),
    pa.ArrowCapacityError("too much for one array"),
    pa.ArrowMemoryError("no memory"),
)


@pytest.mark.parametrize("error", NO_DAMAGE, ids=lambda error: type(error).__name__)
def test_what_says_nothing_about_a_file_is_not_blamed_on_it(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, locating("t/data/f.lance", "column 0"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize("error", [pa.ArrowInvalid("too short"), struct.error("too short")])
def test_what_a_library_refuses_is_damage_that_no_check_found(error: Exception) -> None:
    with (
        pytest.raises(CorruptFile, match=r"^t/data/f\.lance: column 0: .*too short") as raised,
        locating("t/data/f.lance", "column 0"),
    ):
        raise error
    assert raised.value.is_caught_by_net
    assert raised.value.__cause__ is error


def test_what_a_check_refuses_is_not_caught_by_the_net() -> None:
    with pytest.raises(CorruptFile) as raised, locating("t/data/f.lance"):
        raise CorruptFile("a page of 3 rows, 4 were expected")
    assert not raised.value.is_caught_by_net


@pytest.mark.parametrize("error", [ArrayTooLarge.of("string"), MissingFile.of("t/data/f", "7")])
def test_an_error_from_another_process_says_the_same(error: Exception) -> None:
    sent = pickle.loads(pickle.dumps(error))
    assert (type(sent), str(sent), repr(sent)) == (type(error), str(error), repr(error))


@pytest.mark.parametrize("kind", [CorruptFile, ColumnNotFound, NoSuchPath])
def test_a_message_is_short_however_long_the_names_in_it_are(kind: type[Exception]) -> None:
    """Names and types of a table may have millions of characters."""
    text = str(kind(f"begin: {'n' * 5_000_000}; end"))
    assert len(text) < 11_000
    assert text.startswith("begin: nnn")
    assert text.endswith("nnn; end")


def test_the_error_of_a_type_of_a_million_digits_is_short_and_names_the_manifest(
    tmp_path: Path,
) -> None:
    def change(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = f"decimal:128:{'9' * 1_000_000}:0"

    lance.write_dataset(pa.table({"n": [1]}), tmp_path / "t")
    rewrite_manifest(tmp_path / "t", change)
    with pytest.raises(CorruptFile, match=r"\.manifest: field 0 \(n\)") as raised:
        _ = lancefs.open(str(tmp_path / "t")).schema
    assert len(str(raised.value)) < 11_000
