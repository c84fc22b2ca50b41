"""Retries of requests to a store, with exponential backoff.

Object stores throttle requests, and networks drop them: such transient errors are retried. All
other errors (a missing file, a denied permission) are raised at once.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from lancefs.errors import LanceError, ReadFailed, cause
from lancefs.masking import mask_secrets
from lancefs.printable import get_logger

T = TypeVar("T")
logger = get_logger(__name__)

# Largest number of attempts at a request.
ATTEMPTS = 5
# Seconds after which no further attempt starts: a client library that reports timeouts has mostly
# retried several times itself.
PATIENCE = 60.0
# Seconds before the first retry; the pause doubles with each further retry.
PAUSE = 0.1

_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
# HTTP statuses of transient errors.
_TRANSIENT_STATUSES = {408, 425, 429, 500, 502, 503, 504}
# Error numbers of transient errors.
_TRANSIENT_ERRNOS = {
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
# Connection errors that are not OSErrors: the top-level packages that define them, and parts of
# their class names. Those packages are optional dependencies, so they are not imported here.
_CLIENT_LIBRARIES = {"aiobotocore", "aiohttp", "azure", "botocore", "google", "requests", "urllib3"}
_CONNECTION_ERROR_NAMES = (
    "Connect",
    "Connection",
    "Incomplete",
    "Payload",
    "Streaming",
    "Timeout",
    "Disconnected",
)

# What messages of obstore go on with.
_RUST_VALUES = "\n\nDebug source:\n"


def is_transient(error: BaseException) -> bool:
    """Return whether an error is transient, so that a retry may succeed.

    Args:
        error: Raised by any fsspec filesystem, or by the client library of one.
    """
    if isinstance(error, _PERMANENT):
        return False
    status = error.status if hasattr(error, "status") else getattr(error, "code", None)
    if isinstance(status, int) and 400 <= status < 600:
        return status in _TRANSIENT_STATUSES
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return True
    if isinstance(error, OSError):  # some filesystems set no error number
        return error.errno is None or error.errno in _TRANSIENT_ERRNOS
    return any(
        kind.__module__.partition(".")[0] in _CLIENT_LIBRARIES
        and any(name in kind.__name__ for name in _CONNECTION_ERROR_NAMES)
        for kind in type(error).__mro__
    )


def attempts(what: str) -> Iterator[bool]:
    """Yield once for each attempt, after a pause before each retry.

    The caller leaves the loop after a successful attempt.

    Args:
        what: Name of the request, for the log.

    Yields:
        Whether this attempt is the last.
    """
    started = time.monotonic()
    for attempt in range(1, ATTEMPTS + 1):
        if attempt > 1:
            # Jitter: readers that were throttled together must not return together.
            time.sleep(PAUSE * 2 ** (attempt - 2) * random.uniform(0.5, 1.5))
            logger.info("%s: failed, attempt %d of %d", mask_secrets(what), attempt, ATTEMPTS)
        is_last = attempt == ATTEMPTS or time.monotonic() - started > PATIENCE
        yield is_last
        if is_last:
            return


def retry(call: Callable[[], T], url: str) -> T:
    """Call a function of a filesystem; retry after transient errors.

    Args:
        call: The function.
        url: The file or directory, for messages.

    Raises:
        FileNotFoundError: The file does not exist. (`NotADirectoryError` and any `LanceError` pass
            through as well.)
        ReadFailed: The call failed, also after retries.
    """
    for is_last in attempts(url):
        try:
            return call()
        except (FileNotFoundError, NotADirectoryError, LanceError):
            raise
        except Exception as error:
            if is_last or not is_transient(error):
                raise ReadFailed(f"{url}: {message_of(error)}") from cause(error, url)
    raise AssertionError("the last attempt returns or raises")


def message_of(error: BaseException) -> str:
    """Return the message of an error, or its type: a timeout, for example, has no message.

    obstore adds what its own values look like, which says nothing more.
    """
    return str(error).partition(_RUST_VALUES)[0].strip() or type(error).__name__
