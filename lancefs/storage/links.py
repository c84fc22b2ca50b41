"""Symbolic links in local tables: which ones are followed.

The writer of a table may put a link in place of any of its files and directories. A link is
followed if what it leads to, resolved, lies in certain directories: by default in the directory of
tables that the table lies in. So a link to a file of another user, or to `/etc`, is not.

The check costs nothing for a file that is no link: the operating system refuses to open a link
(`O_NOFOLLOW`), and only then is it resolved. Of each directory, the names below the table are
looked at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from lancefs.errors import UnsupportedFeature

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# Whether a file can be named by an open directory and its name in it.
HAS_FOLDERS = bool(NO_FOLLOW) and os.open in os.supports_dir_fd
# What opening a link with O_NOFOLLOW gives: ELOOP by POSIX, EMLINK on FreeBSD.
_IS_LINK = {errno.ELOOP, errno.EMLINK}
# Directories that are remembered as checked; more than that are resolved again.
_MAX_CHECKED = 1000


class Confines:
    """Directories that the files of a table must lie in, links resolved.

    Args:
        directories: The directories; links in their own paths are resolved at the first check.
            None for all directories.
        advice: What a user may pass so that more is read, for error messages.
        beside: A directory whose parent is one of the directories, too, once links are resolved.
    """

    def __init__(
        self, directories: Sequence[str] | None, advice: str = "", beside: str | None = None
    ) -> None:
        self._given = directories
        self._advice = advice
        self._beside = beside
        self._real: tuple[str, ...] | None = None
        self._checked: set[str] = set()

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories, links resolved; the root directory where all are allowed."""
        if self._real is None:
            given = [os.sep] if self._given is None else self._given
            real = [os.path.realpath(one) for one in given]
            if self._beside is not None:
                home = os.path.dirname(os.path.realpath(self._beside))
                real += [home] if home != os.sep else []
            self._real = tuple(dict.fromkeys(real))
        return self._real

    def allow(self, path: str) -> bool:
        """Return whether a path, links resolved, lies in the directories."""
        return self._allow_real(os.path.realpath(path))

    def check(self, path: str) -> str:
        """Return the path of a file or directory with links resolved.

        Raises:
            UnsupportedFeature: It lies outside of the directories.
        """
        real = os.path.realpath(path)
        if not self._allow_real(real):
            error = UnsupportedFeature(
                f"a symbolic link leads to {real}, outside of {' and '.join(self.directories)}; "
                f"it is followed only when asked for, with {self._advice}"
            )
            error.path = path
            raise error
        return real

    def check_directory(self, path: str) -> None:
        """Check a directory, the first time that it is met; raises as `check` does."""
        if self._given is None or path in self._checked:
            return
        if not any(_is_plainly_below(path, one) for one in self._given):
            self.check(path)
        if len(self._checked) >= _MAX_CHECKED:
            self._checked.clear()
        self._checked.add(path)

    def look_again(self) -> None:
        """Check directories anew when they are met next: links may have taken their place."""
        self._checked.clear()
        self._real = None

    def open(self, path: str, flags: int) -> int:
        """Open a file; the opener of `open()`.

        Raises:
            UnsupportedFeature: A link leads out of the directories.
            OSError: The file cannot be opened.
        """
        if self._given is None:
            return os.open(path, flags)
        if path not in self._given:  # as a file that the caller named
            self.check_directory(os.path.dirname(path))
        if not NO_FOLLOW:
            return os.open(self.check(path), flags)
        try:
            return os.open(path, flags | NO_FOLLOW)
        except OSError as error:
            if error.errno not in _IS_LINK:
                raise
        return os.open(self.check(path), flags | NO_FOLLOW)

    def _allow_real(self, path: str) -> bool:
        return self._given is None or any(_is_below(path, one) for one in self.directories)


def _is_plainly_below(path: str, directory: str) -> bool:
    """Return whether a path is below a directory, with no link on the way from it."""
    directory = directory.rstrip(os.sep)
    if not path.startswith(directory + os.sep):
        return path == directory
    here = directory
    for name in path[len(directory) :].split(os.sep):
        if name in (os.curdir, os.pardir):
            return False
        here = f"{here}{os.sep}{name}" if name else here
        if name and os.path.islink(here):
            return False
    return True


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/" + os.sep) + os.sep)
