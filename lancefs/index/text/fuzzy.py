"""Fuzzy matching: tokens within an edit distance of a word.

A word is compared a character at a time: a state is a row of the table of edit distances, and the
next one depends on the character alone. States are kept, so that a walk over all tokens mostly
looks them up. Whoever wrote the tokens cannot make a walk longer than a bound.
"""

from __future__ import annotations

from typing import NamedTuple

# Limit of the work for one word: transitions of a token map, and distances, that are looked at.
_MAX_WORK = 8_000_000

# Without a given fuzziness, words with fewer characters than these match as they are, and with one
# edit; longer words match with two.
_WITHOUT_EDITS = 3
_WITH_ONE_EDIT = 6


def automatic_distance(word: str) -> int:
    """Return how many edits a word may have where the query does not tell."""
    if len(word) < _WITHOUT_EDITS:
        return 0
    return 1 if len(word) < _WITH_ONE_EDIT else 2


class _Steps(NamedTuple):
    """What follows on a state of a word.

    Attributes:
        named: The state after each character of the word that has one byte; None after a character
            with which no word is like this one.
        others: The state after all other characters.
        starts: The first bytes of characters that may follow, ascending; None if all may.
    """

    named: dict[int, int | None]
    others: int | None
    starts: bytes | None


class FuzzyWord:
    """A word, and which others are like it.

    Args:
        word: The word.
        distance: How many characters may be put in, left out or changed.
        prefix_length: How many characters at the beginning must be the same.
    """

    def __init__(self, word: str, distance: int, prefix_length: int) -> None:
        self.prefix = word[:prefix_length]
        self._word = word
        self._rest = word[prefix_length:]
        self._characters = frozenset(self._rest)
        self._distance = distance
        # Distances above the bound are all alike.
        first = tuple(min(place, distance + 1) for place in range(len(self._rest) + 1))
        self._rows = [first]
        self._numbers = {first: 0}
        self._next: dict[tuple[int, str], int | None] = {}
        self._by_byte: dict[int, _Steps] = {}
        self._work = 0

    @property
    def lengths(self) -> tuple[int, int]:
        """The characters that words like this one have, at least and at most."""
        length = len(self._word)
        return length - self._distance, length + self._distance

    @property
    def start(self) -> int:
        """The state behind the prefix."""
        return 0

    def step(self, state: int, character: str) -> int | None:
        """Return the state after another character; None if no such word is like this one."""
        known = character if character in self._characters else ""
        try:
            return self._next[state, known]
        except KeyError:
            found = self._next[state, known] = self._make(self._rows[state], known)
            return found

    def steps(self, state: int) -> _Steps:
        """Return the states after each character of one byte, and which characters may follow."""
        found = self._by_byte.get(state)
        if found is None:
            others = self.step(state, "")
            after = {one: self.step(state, one) for one in self._characters}
            named = {ord(one): number for one, number in after.items() if one.isascii()}
            starts = {
                one.encode("utf-8", "surrogatepass")[0]
                for one, number in after.items()
                if number is not None
            }
            found = _Steps(named, others, None if others is not None else bytes(sorted(starts)))
            self._by_byte[state] = found
        return found

    def is_match(self, state: int) -> bool:
        """Tell whether a word that ends in a state is like this one."""
        return self._rows[state][-1] <= self._distance

    def matches(self, token: str) -> bool:
        """Tell whether a word is like this one."""
        if not token.startswith(self.prefix):
            return False
        state = self.start
        for character in token[len(self.prefix) :]:
            after = self.step(state, character)
            if after is None:
                return False
            state = after
        return self.is_match(state)

    def spend(self, work: int) -> None:
        """Count work that was done for this word.

        Raises:
            ValueError: It is too much.
        """
        self._work += work
        if self._work > _MAX_WORK:
            raise ValueError(
                f"too many words are close to {self._word[:40]!r}; search for it with a smaller "
                "fuzziness, or a longer prefix_length"
            )

    def _make(self, row: tuple[int, ...], character: str) -> int | None:
        self.spend(len(row))
        most = self._distance + 1
        made = [min(row[0] + 1, most)]
        for place, own in enumerate(self._rest):
            changed = row[place] + (own != character)
            made.append(min(changed, row[place + 1] + 1, made[place] + 1, most))
        if min(made) == most:
            return None
        found = tuple(made)
        number = self._numbers.setdefault(found, len(self._rows))
        if number == len(self._rows):
            self._rows.append(found)
        return number
