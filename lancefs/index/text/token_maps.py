"""Token maps: from the tokens of a partition to their numbers.

A map is a finite-state transducer, as the Rust library `fst` writes it (version 3), or two columns,
as older releases write it. A look-up in a transducer follows one path: it is never expanded.

Format page: full-text index (`docs/src/format/index/scalar/fts.md`).
"""

from __future__ import annotations

import struct
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.errors import CorruptFile

_HEADER = struct.Struct("<QQ")
# Number of keys, address of the root, checksum.
_FOOTER = struct.Struct("<QQI")
_VERSION = 3
# Nodes begin behind the header; lower addresses mean the node that is final and has no transitions.
_FIRST_NODE = _HEADER.size
_EMPTY_FINAL = 0

# The bytes that a node of one transition may name by their places, from 1 on.
_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHGWUV"[:63]
# Nodes with more transitions have a table of 256 bytes, from inputs to transitions.
_MOST_WITHOUT_TABLE = 32


class TokenMap(Protocol):
    """Numbers of tokens."""

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        ...

    def get(self, token: str) -> int | None:
        """Return the number of a token; None if there is no such token."""
        ...


class ListedTokens:
    """Tokens in a column, and their numbers in another one.

    Args:
        tokens: The tokens.
        numbers: Their numbers.

    Raises:
        CorruptFile: The columns are not what they should be.
    """

    def __init__(self, tokens: pa.Array, numbers: pa.Array) -> None:
        is_text = pa.types.is_string(tokens.type) or pa.types.is_large_string(tokens.type)
        if not is_text or not pa.types.is_integer(numbers.type) or numbers.null_count:
            raise CorruptFile(f"tokens are {tokens.type}, and their numbers {numbers.type}")
        self._tokens = tokens
        self._numbers = numbers

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return int(self._tokens.nbytes + self._numbers.nbytes)

    def get(self, token: str) -> int | None:
        """Return the number of a token; None if there is no such token."""
        position = pc.index(self._tokens, pa.scalar(token, self._tokens.type)).as_py()
        return None if position < 0 else int(self._numbers[position].as_py())


class TransducerTokens:
    """Tokens in a finite-state transducer.

    Args:
        data: The transducer.

    Raises:
        CorruptFile: The bytes are no transducer of this version.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER.size + _FOOTER.size:
            raise CorruptFile(f"a token map of {len(data)} bytes")
        version, _ = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise CorruptFile(f"a token map of version {version}; {_VERSION} was expected")
        self.num_tokens, self._root, _ = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
        self._end = len(data) - _FOOTER.size
        self._data = data
        if not (self._root == _EMPTY_FINAL or _FIRST_NODE <= self._root < self._end):
            raise CorruptFile(f"the token map begins at {self._root}, it has {self._end} bytes")

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return len(self._data)

    def get(self, token: str) -> int | None:
        """Return the number of a token; None if there is no such token.

        Raises:
            CorruptFile: The transducer is damaged.
        """
        if not self.num_tokens:
            return None
        address, number = self._root, 0
        for byte in token.encode("utf-8", "surrogatepass"):
            step = self._step(address, byte)
            if step is None:
                return None
            address, output = step
            number += output
        final = self._final_output(address)
        return None if final is None else number + final

    def _step(self, address: int, byte: int) -> tuple[int, int] | None:
        """Return where a byte leads to from a node, and what it adds; None if nowhere."""
        if address == _EMPTY_FINAL:
            return None
        state = self._byte(address)
        if state < 0x80:
            return self._step_of_many(address, state, byte)
        at = address
        if state & 0x3F:
            if _COMMON[(state & 0x3F) - 1] != byte:
                return None
        else:
            at -= 1
            if self._byte(at) != byte:
                return None
        if state >= 0xC0:
            return self._target(at, 1), 0
        at -= 1
        sizes = self._byte(at)
        widths = sizes >> 4, sizes & 0xF
        delta = self._number(at - widths[0], widths[0])
        at -= sum(widths)
        return self._target(at, delta), self._number(at, widths[1])

    def _step_of_many(self, address: int, state: int, byte: int) -> tuple[int, int] | None:
        """Do what `_step` does at a node that is final, or has not just one transition."""
        count, at, width, output_width = self._many(address, state)
        inputs = self._slice(at - count, count)
        place = inputs.rfind(byte)  # they descend
        if place < 0:
            return None
        number = count - 1 - place
        deltas = at - count - count * width
        outputs = deltas - count * output_width
        start = outputs - (output_width if state & 0x40 else 0)
        delta = self._number(deltas + (count - 1 - number) * width, width)
        output = self._number(outputs + (count - 1 - number) * output_width, output_width)
        return self._target(start, delta), output

    def _many(self, address: int, state: int) -> tuple[int, int, int, int]:
        """Return the transitions of a node, where they end, and the widths of their numbers."""
        count, at = state & 0x3F, address
        if not count:
            at -= 1
            count = self._byte(at)
            count = 256 if count == 1 else count
        at -= 1
        sizes = self._byte(at)
        return count, at - (256 if count > _MOST_WITHOUT_TABLE else 0), sizes >> 4, sizes & 0xF

    def _final_output(self, address: int) -> int | None:
        """Return what is added where a token ends at a node; None if none ends there."""
        if address == _EMPTY_FINAL:
            return 0
        state = self._byte(address)
        if state >= 0x80 or not state & 0x40:
            return None
        count, at, width, output_width = self._many(address, state)
        return self._number(at - count * (1 + width + output_width) - output_width, output_width)

    def _target(self, start: int, delta: int) -> int:
        """Return the node that lies so many bytes before another one."""
        if not delta:
            return _EMPTY_FINAL
        if not _FIRST_NODE <= start - delta < start:
            raise CorruptFile(f"a node of the token map at {start - delta}")
        return start - delta

    def _byte(self, address: int) -> int:
        if not _FIRST_NODE <= address < self._end:
            raise CorruptFile(f"a node of the token map at {address}; it has {self._end} bytes")
        return self._data[address]

    def _slice(self, start: int, length: int) -> bytes:
        if not _FIRST_NODE <= start <= start + length <= self._end:
            raise CorruptFile(f"a node of the token map at {start}; it has {self._end} bytes")
        return self._data[start : start + length]

    def _number(self, start: int, width: int) -> int:
        return int.from_bytes(self._slice(start, width), "little") if width else 0
