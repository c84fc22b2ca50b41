"""Mapped bytes of local files, which are given back before they fill the memory.

A process counts as its own what it has touched of the files that it maps. Of a fragment that is
read no more, that is still so, as the readers of many fragments are kept open.
"""

from __future__ import annotations

import threading

from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun

# Bytes that a stream leaves in memory: to give them back, and to bring them in again, takes time.
STREAM_BYTES = 8 * 1024 * 1024


class Mapped:
    """Watches how many bytes of fragments are in memory; several threads may tell it.

    Args:
        most: Bytes; with more, all are given back. Arrays that lie in them stay as they are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._fragments: list[FragmentReader | FragmentRun] = []
        self._before = 0  # bytes of all fragments but the last
        self._lock = threading.Lock()

    def watch(self, fragment: FragmentReader | FragmentRun) -> None:
        """Say that rows of a fragment were read."""
        if not fragment.is_local:
            return
        with self._lock:
            last = self._fragments[-1:]
            if last != [fragment]:
                self._before += sum(one.touched for one in last)
                self._fragments.append(fragment)
            if self._before + fragment.touched >= self._most:
                for one in self._fragments:
                    one.release()
                self._fragments, self._before = [fragment], 0
