"""What errors say about bytes: damage is a `CorruptFile`, a bug or a full machine never is."""

from __future__ import annotations

import errno
import pickle
import struct

import pyarrow as pa
import pytest

from lancefs.errors import ArrayTooLarge, CorruptFile, MissingFile, locating

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
