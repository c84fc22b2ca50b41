"""Membership of strings and numbers in a set, and the distinct ones of some strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints, Mask, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

# Bits that tell most strings from the texts, and most numbers from the keys, for each of these, and
# at least. A number that meets a bit takes ten times as long as others.
_BITS, _NUMBER_BITS = 16, 64
_LEAST_BITS = 4096
# Slots of a hash table for each string that may be in it.
_SLOTS = 4


class NumberKeys:
    """Numbers that others are looked up in, once or many times.

    Args:
        numbers: The numbers (int64), each once.

    Attributes:
        table: What the compiled kernel has made of them; None before its first call.
    """

    __slots__ = ("numbers", "table")

    def __init__(self, numbers: Ints) -> None:
        self.numbers = numbers
        self.table: tuple[Bytes, int, Array, int] | None = None

    def __len__(self) -> int:
        return len(self.numbers)


def among_numbers(numbers: Array, keys: NumberKeys) -> Mask:
    """Tell which numbers are one of some.

    Args:
        numbers: Integers of up to 8 bytes, little-endian.
        keys: Those that are looked for. None is negative if the numbers are unsigned of 8 bytes.
    """
    return np.isin(numbers.astype(np.int64), keys.numbers)


class TextSet:
    """Texts that strings are looked up in, once or many times.

    Args:
        offsets: Text i is `data[offsets[i]:offsets[i + 1]]`. Two may be the same.
        data: The bytes of the texts.

    Attributes:
        table: What the compiled kernel has made of the texts; None before its first call.
    """

    __slots__ = ("data", "offsets", "table")

    def __init__(self, offsets: Array, data: Bytes) -> None:
        self.offsets, self.data = offsets, data
        self.table: tuple[Bytes, int, Array, int] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1


def among(offsets: Array, data: Bytes, texts: TextSet) -> Mask:
    """Tell which strings are one of some texts.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]` (int32). Offsets ascend within the
            data.
        data: The bytes of the strings.
        texts: The texts.

    Raises:
        CorruptFile: The offsets descend or leave the data.
    """
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    import pyarrow.compute as pc  # not needed to open tables

    found = pc.is_in(_binary(offsets, data), value_set=_binary(texts.offsets, texts.data))
    mask: Mask = np.array(found.cast(pa.uint8())).view(np.bool_)  # a copy: callers change it
    return mask


def _binary(offsets: Array, data: Bytes, valid: Mask | None = None) -> pa.Array:
    """Return strings as values of Arrow."""
    ends = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, ends, pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def number_texts(
    offsets: Array, data: Bytes, valid: Mask | None, most: int
) -> tuple[Array, Ints] | None:
    """Number the distinct strings, in the order in which they are met.

    Args:
        offsets: String i is `data[offsets[i]:offsets[i + 1]]` (int32).
        data: The bytes of the strings.
        valid: Which strings are there; None for all.
        most: How many distinct strings there may be.

    Returns:
        The number of each string (int32), 0 for those that are not there; and the first row of each
        distinct string. None where there are more than `most`.

    Raises:
        CorruptFile: The offsets of a string that is there descend or leave the data.
    """
    rows = np.arange(len(offsets) - 1) if valid is None else np.flatnonzero(valid)
    begins, ends = offsets[rows], offsets[rows + 1]
    if (begins < 0).any() or (begins > ends).any() or (ends > len(data)).any():
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    encoded = _binary(offsets, data, valid).dictionary_encode()
    if len(encoded.dictionary) > most:
        return None
    numbers = np.zeros(len(offsets) - 1, np.int32)
    numbers[rows] = np.frombuffer(encoded.indices.buffers()[1], np.int32)[rows]
    _, firsts = np.unique(numbers[rows], return_index=True)
    return numbers, rows[firsts]


@twin_of(among, "offsets number bytes number ints number bytes out number out number out")
def _compiled_among(call: Call, offsets: Array, data: Bytes, texts: TextSet) -> Mask:
    count, table, added = len(offsets) - 1, texts.table, 0
    if table is None:
        table, added = _empty_table(len(texts), _BITS), len(texts)
    found = np.zeros(count, np.bool_)
    call(offsets, count, data, len(data), texts.offsets, added, texts.data, *table, found)
    texts.table = table  # complete; a thread that began before made one of its own
    return found


@twin_of(among_numbers, "bytes number number ints number out number out number out")
def _compiled_among_numbers(call: Call, numbers: Array, keys: NumberKeys) -> Mask:
    count, table, added = len(numbers), keys.table, 0
    if table is None:
        table, added = _empty_table(len(keys), _NUMBER_BITS), len(keys)
    width = numbers.itemsize if numbers.dtype.kind == "i" else -numbers.itemsize
    found = empty(count, np.bool_)
    call(numbers, width, count, keys.numbers, added, *table, found)
    keys.table = table  # as in `_compiled_among`
    return found


@twin_of(number_texts, "offsets number bytes number bytes out number number out out")
def _compiled_number_texts(
    call: Call, offsets: Array, data: Bytes, valid: Mask | None, most: int
) -> tuple[Array, Ints] | None:
    count = len(offsets) - 1
    most = min(most, count)
    slots = np.zeros(_power_of_two(_SLOTS * most + 1), np.int64)
    numbers, firsts = empty(count, np.int32), empty(most, np.int64)
    found = call(
        offsets, count, data, len(data), valid, slots, len(slots) - 1, most, numbers, firsts
    )
    return (numbers, firsts[:found].copy()) if found <= most else None


def _empty_table(keys: int, bits_of_key: int) -> tuple[Bytes, int, Array, int]:
    """Return the table of the kernels, with room for some texts or numbers."""
    slots = np.zeros(_power_of_two(2 * keys + 1), np.int32)
    bits = _power_of_two(max(bits_of_key * keys, _LEAST_BITS))
    return np.zeros(bits // 8, np.uint8), bits - 1, slots, len(slots) - 1


def _power_of_two(least: int) -> int:
    """Return the least power of two that is not below a positive number."""
    return 1 << (least - 1).bit_length()
