"""One budget for resources of many owners: the least recently used ones are released.

The owners are datasets, filesystems, connections; what they hold are mapped files or readers, which
can be had again at any time. There are no locks: a thread that holds one may be forked away.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Protocol

_uses = count(1)


class Holding(Protocol):
    """Something that an owner holds and can have again.

    Attributes:
        last_use: From `SharedBudget.use`; a larger number is a later use.
    """

    last_use: int

    @property
    def cost(self) -> int:
        """What it takes, in the unit of the budget, mostly bytes."""
        ...

    def let_go(self) -> None:
        """Have the owner hold it no longer. Whoever uses it at the moment goes on."""
        ...


class SharedBudget:
    """Keeps the holdings of a process within a number and a cost; threads share it.

    A holding is left out by itself when its owner drops it.

    Args:
        most: Returns the largest number of holdings.
        most_cost: Largest sum of their costs. Costs may grow after a thing is held; they are added
            up from time to time only, so that the sum may be an eighth larger.
    """

    def __init__(self, most: Callable[[], int], most_cost: int) -> None:
        self._most = most
        self._most_cost = most_cost
        self._held: dict[int, weakref.ref[Holding]] = {}
        self._unchecked = 0  # things that came since costs were added up

    def __len__(self) -> int:
        return len(self._held)

    @staticmethod
    def use(thing: Holding) -> None:
        """Note that a thing is used."""
        thing.last_use = next(_uses)

    def hold(self, thing: Holding) -> None:
        """Note that an owner holds a thing, and let others go if there are too many."""
        self.use(thing)
        key = id(thing)
        self._held[key] = weakref.ref(thing, partial(_leave_out, self._held, key))
        self._unchecked += 1
        if len(self._held) > self._most() or self._unchecked * 8 > len(self._held) + 64:
            self._unchecked = 0
            self._keep(self._most(), self._most_cost, thing)

    def drop(self, thing: Holding) -> None:
        """Note that an owner holds a thing no longer."""
        self._held.pop(id(thing), None)

    def let_go_all(self) -> None:
        """Let everything go."""
        self._keep(0, 0, None)

    def let_go_half(self) -> None:
        """Let the half go that was used longest ago."""
        self._keep(len(self._held) // 2, self._most_cost, None)

    def _keep(self, most: int, most_cost: int, newest: Holding | None) -> None:
        """Let the least recently used things go, a quarter more than has to be."""
        references = list(self._held.values())
        things = [thing for reference in references if (thing := reference()) is not None]
        things.sort(key=lambda thing: thing.last_use, reverse=True)
        total = sum(thing.cost for thing in things)
        if len(things) <= most and total <= most_cost:
            return
        kept_cost = 0
        for kept, thing in enumerate(things, 1):
            kept_cost += thing.cost
            if thing is not newest and (kept * 4 > most * 3 or kept_cost * 4 > most_cost * 3):
                self.drop(thing)
                thing.let_go()


def _leave_out(
    held: dict[int, weakref.ref[Holding]], key: int, reference: weakref.ref[Holding]
) -> None:
    if held.get(key) is reference:  # another thing may have the key by now
        held.pop(key, None)
