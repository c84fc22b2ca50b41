"""Packing consecutive fragments into tasks of limited size in bytes."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.table.fragments import Fragment

# Bytes below which a task mostly waits for Spark, so that no core is worth being used for less.
_MIN_BYTES = 8 * 1024 * 1024

# Positions of the first and the last of some consecutive fragments in the manifest.
Pack = tuple[int, int]


def pack(
    fragments: Sequence[Fragment], positions: Sequence[int], target_bytes: int, cores: int
) -> list[Pack]:
    """Join consecutive fragments to pieces of work.

    Args:
        fragments: Those of the manifest.
        positions: The positions of the fragments that are worked on, ascending.
        target_bytes: Bytes of data files of a piece, at most, unless one fragment has more.
        cores: Pieces that are worked on at a time: there are at least as many, where that pays.

    Returns:
        Pieces that together have each position once. A fragment whose size is not recorded is a
        piece of its own.
    """
    sizes = [fragments[position].size for position in positions]
    share = sum(size or 0 for size in sizes) // max(cores, 1)
    most = min(target_bytes, max(share, _MIN_BYTES))
    packs: list[Pack] = []
    left = 0  # bytes for which the last piece has room
    for position, size in zip(positions, sizes, strict=True):
        if size is not None and size <= left and packs[-1][1] == position - 1:
            packs[-1] = packs[-1][0], position
            left -= size
        else:
            packs.append((position, position))
            left = 0 if size is None else most - size
    return packs
