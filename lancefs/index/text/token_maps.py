"""Token maps: from the tokens of a partition to their numbers.

A map is a finite-state transducer, as the Rust library `fst` writes it (version 3), or two columns,
as older releases write it. A look-up in a transducer follows one path; words that are like a word
are found on the paths that may still lead to one. It is never expanded.

Format page: full-text index (`docs/src/format/index/scalar/fts.md`).
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.constants import scalar_of
from lancefs.errors import CorruptFile
from lancefs.index.text.fuzzy import FuzzyWord

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
_MAX_WITHOUT_TABLE = 32

# Bytes of a path that cost as much as a transition, where a walk goes far.
_PATH = 64

# Tokens of a column that become Python objects at a time.
_LISTED = 4096


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
        position = pc.index(self._tokens, scalar_of(token, self._tokens.type)).as_py()
        return None if position < 0 else int(self._numbers[position].as_py())

    def similar(self, word: FuzzyWord, most: int) -> list[str]:
        """Return the tokens that are like a word, at most so many: the first ones in order.

        Tokens of other lengths, and what a damaged file lists twice, are left out before they
        become Python objects.
        """
        least, longest = word.lengths
        lengths = pc.utf8_length(self._tokens)
        is_near = pc.and_(pc.greater_equal(lengths, least), pc.less_equal(lengths, longest))
        near = pc.unique(self._tokens.filter(is_near))
        found = (
            token
            for start in range(0, len(near), _LISTED)
            for token in near.slice(start, _LISTED).to_pylist()
            if word.matches(token)
        )
        return heapq.nsmallest(most, found)


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
        found = self._follow(token)
        if found is None:
            return None
        address, number = found
        final = self._final_output(address)
        return None if final is None else number + final

    def similar(self, word: FuzzyWord, most: int) -> list[str]:
        """Return the tokens that are like a word, at most so many: the first ones in order.

        Raises:
            CorruptFile: The transducer is damaged.
            ValueError: So many tokens begin like the word that the walk would be too long.
        """
        found = self._follow(word.prefix)
        return [] if found is None else list(islice(self._walk(found[0], word), most))

    def _follow(self, token: str) -> tuple[int, int] | None:
        """Return the node behind some characters, and the sum of outputs; None if there is none."""
        if not self.num_tokens:
            return None
        address, number = self._root, 0
        for byte in token.encode("utf-8", "surrogatepass"):
            step = self._step(address, byte)
            if step is None:
                return None
            address, output = step
            number += output
        return address, number

    def _walk(self, root: int, word: FuzzyWord) -> Iterator[str]:
        """Yield the tokens below a node that are like a word, in order.

        A node is left as soon as no token below it can be like the word, so that no path is much
        longer than the word; the word counts the transitions.
        """
        # A node, the bytes on the way to it from the root, how many of these are whole characters,
        # and the state of the word.
        waiting = [(root, b"", 0, word.start)]
        while waiting:
            address, path, whole, state = waiting.pop()
            is_end = whole == len(path) and word.is_match(state)
            if is_end and self._final_output(address) is not None:
                yield word.prefix + path.decode("utf-8")
            if whole < len(path):
                waiting += self._within_character(address, path, whole, state, word)
                continue
            after = word.steps(state)
            steps = self._transitions(address, after.starts)
            word.spend(1 + len(steps) * (1 + len(path) // _PATH))
            for byte, target in reversed(steps):
                longer = path + bytes([byte])
                if byte >= 0x80:
                    waiting.append((target, longer, whole, state))
                    continue
                following = after.named.get(byte, after.others)
                if following is not None:
                    waiting.append((target, longer, len(longer), following))

    def _within_character(
        self, address: int, path: bytes, whole: int, state: int, word: FuzzyWord
    ) -> Iterator[tuple[int, bytes, int, int]]:
        """Yield what follows on a node behind a part of a character, the last one first."""
        steps = self._transitions(address)
        word.spend(1 + len(steps) * (1 + len(path) // _PATH))
        for byte, target in reversed(steps):
            longer = path + bytes([byte])
            if len(longer) - whole < _character_size(longer[whole]):
                yield target, longer, whole, state
                continue
            character = _character(longer[whole:])
            after = None if character is None else word.step(state, character)
            if after is not None:
                yield target, longer, len(longer), after

    def _step(self, address: int, byte: int) -> tuple[int, int] | None:
        """Return where a byte leads to from a node, and what it adds; None if nowhere."""
        if address == _EMPTY_FINAL:
            return None
        state = self._byte(address)
        if state < 0x80:
            return self._step_of_many(address, state, byte)
        input, target, output = self._single(address, state)
        return (target, output) if input == byte else None

    def _single(self, address: int, state: int) -> tuple[int, int, int]:
        """Return the byte of a node of one transition, where it leads to, and what it adds."""
        at = address
        if state & 0x3F:
            input = _COMMON[(state & 0x3F) - 1]
        else:
            at -= 1
            input = self._byte(at)
        if state >= 0xC0:
            return input, self._target(at, 1), 0
        at -= 1
        sizes = self._byte(at)
        widths = sizes >> 4, sizes & 0xF
        delta = self._number(at - widths[0], widths[0])
        at -= sum(widths)
        return input, self._target(at, delta), self._number(at, widths[1])

    def _transitions(self, address: int, wanted: bytes | None = None) -> list[tuple[int, int]]:
        """Return the bytes that lead on from a node, ascending, and where they lead to.

        Args:
            address: The node.
            wanted: The bytes that are asked for, ascending; None for all.
        """
        if address == _EMPTY_FINAL:
            return []
        state = self._byte(address)
        if state >= 0x80:
            input, target, _ = self._single(address, state)
            return [(input, target)] if wanted is None or input in wanted else []
        count, at, width, output_width = self._many(address, state)
        inputs = self._slice(at - count, count)[::-1]
        deltas = self._slice(at - count - count * width, count * width)
        start = at - count - count * (width + output_width) - (output_width if state & 0x40 else 0)
        places: Iterable[int] = range(count)
        if wanted is not None:
            places = [place for byte in wanted if (place := inputs.find(byte)) >= 0]
        found = []
        for place in places:
            end = (count - place) * width
            delta = int.from_bytes(deltas[end - width : end], "little")
            found.append((inputs[place], self._target(start, delta)))
        return found

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
        return count, at - (256 if count > _MAX_WITHOUT_TABLE else 0), sizes >> 4, sizes & 0xF

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


# A map from tokens to their numbers.
TokenMap: TypeAlias = ListedTokens | TransducerTokens


def _character_size(first: int) -> int:
    """Return how many bytes a character of UTF-8 has that begins with a byte."""
    if first < 0xC0:
        return 1
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def _character(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
