"""How many partitions a search probes: those with centroids about as near as the nearest one.

The numbers are those that Lance 14 was seen to use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lancefs.index.vectors.distances import Floats, Metric


class _Rule(NamedTuple):
    """Up to `k` rows: partitions within a share of the least distance, at least and at most."""

    k: float
    margin: float
    least: int
    most: int


_RULES: dict[Metric, tuple[_Rule, ...]] = {
    "l2": (
        _Rule(1, 0.2175, 5, 19),
        _Rule(10, 0.265, 6, 24),
        _Rule(100, 0.33, 11, 38),
        _Rule(200, 0.375, 15, 56),
        _Rule(500, 0.3725, 22, 81),
        _Rule(1000, 0.4175, 29, 93),
        _Rule(np.inf, 0.57, 98, 238),
    ),
    "cosine": (
        _Rule(1, 0.235, 3, 50),
        _Rule(10, 0.2875, 8, 77),
        _Rule(100, 0.38, 7, 106),
        _Rule(200, 0.415, 18, 156),
        _Rule(500, 0.45, 28, 192),
        _Rule(1000, 0.47, 34, 248),
        _Rule(np.inf, 0.6475, 104, 447),
    ),
}


def partitions_to_probe(metric: Metric, k: int, distances: Floats) -> int:
    """Return how many partitions a search looks at first.

    Args:
        metric: How vectors are compared.
        k: Rows that are wanted.
        distances: The distances of the centroids, ascending.
    """
    rules = _RULES.get(metric)
    if rules is None or not len(distances):
        return len(distances)
    rule = next(rule for rule in rules if k <= rule.k)
    with np.errstate(invalid="ignore"):
        near = distances - distances[0] <= rule.margin * distances[0]
    return min(max(int(np.count_nonzero(near)), rule.least), rule.most, len(distances))
