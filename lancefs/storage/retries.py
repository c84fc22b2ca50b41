"""Trying again what a store could not do just now.

Object stores refuse requests when they are busy, and networks drop them. What may go better the
next time is tried again, after a pause that grows; what will not is told at once.
"""

from __future__ import annotations

import errno
import logging
import random
import time
from collections.abc import Iterator

logger = logging.getLogger(__name__)

# The most attempts at a request, and the seconds after which no further one is made: a store that
# answers with timeouts has mostly tried several times itself.
ATTEMPTS = 5
PATIENCE = 60.0
# The first pause, in seconds; each further one is twice as long.
PAUSE = 0.1

_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_PASSING = {
    errno.EAGAIN,
    errno.EBUSY,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.EINTR,
    errno.EIO,
    errno.ENETDOWN,
    errno.ENETRESET,
    errno.ENETUNREACH,
    errno.EPIPE,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
# Errors of connections that are no OSError, by the packages that raise them and parts of their
# names: those packages are not imported here.
_LIBRARIES = {"aiobotocore", "aiohttp", "azure", "botocore", "google", "requests", "urllib3"}
_NAMES = ("Connect", "Connection", "Incomplete", "Payload", "Streaming", "Timeout", "Disconnected")


def is_passing(error: BaseException) -> bool:
    """Whether what a store raised may not happen the next time.

    Args:
        error: Of any fsspec filesystem, or of a library that one uses.
    """
    if isinstance(error, _FINAL):
        return False
    status = error.status if hasattr(error, "status") else getattr(error, "code", None)
    if isinstance(status, int) and 400 <= status < 600:
        return status in _BUSY
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return True
    if isinstance(error, OSError):  # some filesystems give no number
        return error.errno is None or error.errno in _PASSING
    return any(
        kind.__module__.partition(".")[0] in _LIBRARIES
        and any(name in kind.__name__ for name in _NAMES)
        for kind in type(error).__mro__
    )


def attempts(what: str) -> Iterator[bool]:
    """Yield once for each attempt, after a pause if it is not the first.

    Args:
        what: What is tried, for the log.

    Yields:
        Whether this is the last time.
    """
    started = time.monotonic()
    for attempt in range(1, ATTEMPTS + 1):
        if attempt > 1:
            # Many readers that were refused together do not come back together.
            time.sleep(PAUSE * 2 ** (attempt - 2) * random.uniform(0.5, 1.5))
            logger.info("%s: failed, attempt %d of %d", what, attempt, ATTEMPTS)
        is_last = attempt == ATTEMPTS or time.monotonic() - started > PATIENCE
        yield is_last
        if is_last:
            return
