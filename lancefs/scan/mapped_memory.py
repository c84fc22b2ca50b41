"""Releasing the memory of mapped local files before it grows.

The pages of a mapped file that were touched count as memory of the process, also those of fragments
that are read no more, since the readers of many fragments stay open.
"""

from __future__ import annotations

from lancefs.forks import Lock
from lancefs.table.fragment_run import FragmentSource


class MappedMemory:
    """Watches how many mapped bytes of fragments are in memory; threads may share it.

    Args:
        most: Bytes; beyond them all mapped bytes are given back. Arrays that lie in mapped bytes
            stay valid.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._fragments: list[FragmentSource] = []
        self._before = 0  # bytes of all fragments but the last
        self._lock = Lock()

    def watch(self, fragment: FragmentSource) -> None:
        """Note that rows of a fragment were read."""
        if not fragment.is_local or not fragment.touched:
            return
        with self._lock:
            last = self._fragments[-1:]
            if last != [fragment]:
                self._before += sum(each.touched for each in last)
                self._fragments.append(fragment)
            if self._before + fragment.touched >= self._most:
                for each in self._fragments:
                    each.release()
                self._fragments, self._before = [fragment], 0
