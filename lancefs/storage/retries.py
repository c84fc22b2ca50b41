"""Retries of requests to a store, with exponential backoff.

Object stores throttle requests, and networks drop them: such transient errors are retried. All
other errors (a missing file, a denied permission) are raised at once.
"""

from __future__ import annotations

import errno
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
# Seconds after which a question (a listing, a length) is not asked again of a server that cannot be
# connected to: its address may be wrong, and client libraries tried for some seconds themselves.
UNREACHABLE_PATIENCE = 5.0
# Seconds before the first retry; the pause doubles with each further retry.
PAUSE = 0.1
# Seconds of the longest pause that a server is granted which says when to come again.
LONGEST_PAUSE = 15.0

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
_CLIENT_LIBRARIES = {
    "aiobotocore",
    "aiohttp",
    "asyncssh",
    "azure",
    "botocore",
    "google",
    "httpcore",
    "httpx",
    "paramiko",
    "requests",
    "urllib3",
}
_CONNECTION_ERROR_NAMES = (
    "Connect",
    "Connection",
    "Incomplete",
    "Payload",
    "ReadError",
    "RemoteProtocol",
    "Streaming",
    "Timeout",
    "Disconnected",
)

_UNREACHABLE_ERRNOS = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH}
# Errors of client libraries that mean that no connection can be made, by parts of their class
# names.
_UNREACHABLE_NAMES = (
    "ClientConnector",
    "ConnectError",
    "ConnectTimeout",
    "EndpointConnection",
    "NewConnection",
    "SSLError",  # of certificates, or where a server speaks no TLS
    "ServiceRequest",
)
# What helps, at the end of messages.
CHECK_ADDRESS = "; check the address, the network and the storage options"
GIVE_CREDENTIALS = "; give the store credentials, or the storage option anon=true if it is public"
CHECK_CREDENTIALS = "; renew or correct the credentials that the store is given"
NAME_REGION = "; name the region of the bucket, as in AWS_DEFAULT_REGION=eu-west-1"
COME_AGAIN = "; the store is busy: try again later"
TRY_LATER = "; the store, or a proxy in front of it, fails: try again later"
NOT_ALLOWED = "; the store does not let you read it: have that allowed, or give other credentials"
GIVE_LOGIN = (
    '; give the server a login, as in storage_options={"headers": {"Authorization": "Bearer …"}}'
)
GIVE_PROXY_LOGIN = "; a proxy wants a login: put it into the URL of the proxy, in HTTPS_PROXY"
CHECK_OPTIONS = "; check the storage options"
_FOR_ALL_READS = (
    CHECK_ADDRESS,
    GIVE_CREDENTIALS,
    CHECK_CREDENTIALS,
    NAME_REGION,
    COME_AGAIN,
    TRY_LATER,
    GIVE_LOGIN,
    GIVE_PROXY_LOGIN,
    CHECK_OPTIONS,
)

# Codes by which S3 and Azure refuse credentials as such, whatever they are used for.
_BAD_CREDENTIALS = {
    "AuthenticationFailed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidAuthenticationInfo",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_NO_CREDENTIALS = {"NoAuthenticationInformation", "PublicAccessNotPermitted"}
_OTHER_REGION = {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_BUSY = {"ServerBusy", "ServiceUnavailable", "SlowDown"}
# Codes by which they refuse a request to those that they know. (Azure's first one is also that of
# its firewall.)
_REFUSED = {
    "AccessDenied",
    "AuthorizationFailure",
    "AuthorizationPermissionMismatch",
    "Forbidden",
    "InsufficientAccountPermissions",
}
# How pylance, and obstore, call options of s3fs.
_OPTIONS_OF_S3FS = {
    "access_key_id": "key",
    "endpoint": "endpoint_url",
    "endpoint_override": "endpoint_url",
    "region": 'client_kwargs={"region_name": …}',
    "region_name": 'client_kwargs={"region_name": …}',
    "secret_access_key": "secret",
    "session_token": "token",
    "skip_signature": "anon",
}
_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '(?:aws_)?(\w+)'")
_ERROR_NUMBER = re.compile(r"\[Errno (-?[0-9]+|None)\] ")

# What messages of obstore, and of Azure's client, go on with: what was said, once more.
_REST = re.compile(r"\n\nDebug source:\n|\nContent: <\?xml |\ndlopen\(")
# Lines of Azure's messages that are others at each request.
_OF_REQUEST = ("RequestId:", "Time:")


def is_transient(error: BaseException) -> bool:
    """Return whether an error is transient, so that a retry may succeed.

    Args:
        error: Raised by any fsspec filesystem, or by the client library of one.
    """
    if isinstance(error, _PERMANENT) or _code_of(error) in _REFUSED:
        return False
    status = error.status if hasattr(error, "status") else getattr(error, "code", None)
    if isinstance(status, int) and 400 <= status < 600:
        return status in _TRANSIENT_STATUSES
    if isinstance(error, TimeoutError | ConnectionError | EOFError):
        return True
    if isinstance(error, OSError):  # some filesystems set no error number
        return error.errno is None or error.errno in _TRANSIENT_ERRNOS
    return _is_of_library(error, _CONNECTION_ERROR_NAMES)


class Attempts:
    """Attempts at a request: yields whether an attempt is the last, after a pause before retries.

    The caller leaves the loop after a successful attempt.

    Args:
        what: Name of the request, for the log.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._asked = 0.0  # the pause that the server asks for

    def __iter__(self) -> Iterator[bool]:
        for attempt in range(1, ATTEMPTS + 1):
            if attempt > 1:
                # Jitter: readers that were throttled together must not return together.
                pause = PAUSE * 2 ** (attempt - 2) * random.uniform(0.5, 1.5)
                time.sleep(pause + self._asked)
                what = mask_secrets(self._what)
                logger.info("%s: failed, attempt %d of %d", what, attempt, ATTEMPTS)
            is_last = attempt == ATTEMPTS or self.seconds > PATIENCE
            self._asked = 0.0
            yield is_last
            if is_last:
                return

    @property
    def seconds(self) -> float:
        """Seconds since the beginning of the first attempt."""
        return time.monotonic() - self._started

    def note(self, error: BaseException) -> None:
        """Have the next attempt wait as long as the answer to the last one asks for.

        Args:
            error: The error of the last attempt; it may have the headers of the answer, as errors
                of aiohttp do.
        """
        headers = getattr(error, "headers", None)
        after = headers.get("Retry-After", "") if isinstance(headers, Mapping) else ""
        if after.isascii() and after.isdecimal():  # else a date, which busy servers do not send
            self._asked = max(self._asked, min(float(after), LONGEST_PAUSE))


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
    tries = Attempts(url)
    for is_last in tries:
        try:
            return call()
        except (FileNotFoundError, NotADirectoryError, LanceError):
            raise
        except Exception as error:
            is_in_vain = tries.seconds > UNREACHABLE_PATIENCE and _is_unreachable(error)
            if is_last or is_in_vain or not is_transient(error):
                text = f"{url}: {message_of(error)}{advice_on(error)}"
                raise ReadFailed(text) from cause(error, url)
            tries.note(error)
    raise AssertionError("the last attempt returns or raises")


def found_no_store(error: LanceError) -> bool:
    """Whether a read failed since nothing answers at the address, or not without credentials."""
    return str(error.args[0]).endswith((CHECK_ADDRESS, GIVE_CREDENTIALS))


def is_store_closed(error: LanceError) -> bool:
    """Whether a read failed for a reason that holds for all reads of the store."""
    return str(error.args[0]).endswith(_FOR_ALL_READS)


def advice_on(error: BaseException) -> str:
    """Return what helps against an error of a store, as the end of its message; empty if unknown.

    Args:
        error: Raised by any fsspec filesystem, or by the client library of one.
    """
    if _is_unreachable(error):
        return CHECK_ADDRESS
    is_option = isinstance(error, TypeError | ValueError)  # of a client made by the first request
    if is_option or _is_of_library(error, ("ProfileNotFound", "ParamValidation")):
        return f"{_option_hint(error)}{CHECK_OPTIONS}"
    if isinstance(error, LookupError):  # what answered is no such store
        return CHECK_ADDRESS
    return _advice_on_answer(error)


def _option_hint(error: BaseException) -> str:
    """Return what s3fs calls an option of pylance that it does not know; empty for other ones."""
    unknown = _UNKNOWN_OPTION.search(str(error))
    name = None if unknown is None else _OPTIONS_OF_S3FS.get(unknown[1])
    return "" if name is None else f", which s3fs calls {name}"


def _advice_on_answer(error: BaseException) -> str:
    """Return what helps against what a store answered; empty if unknown."""
    code, status = _code_of(error), _status_of(error)
    if _is_of_library(error, ("NoCredentials", "ClientAuthentication")) and status is None:
        return GIVE_CREDENTIALS
    is_login = _is_of_library(error, ("Authentication", "PermissionDenied"))  # by SSH
    if code in _BAD_CREDENTIALS or (is_login and status is None):
        return CHECK_CREDENTIALS
    if code in _OTHER_REGION:
        return NAME_REGION
    if code in _BUSY or status in (429, 503):
        return COME_AGAIN
    if status == 401 or code in _NO_CREDENTIALS:
        return GIVE_LOGIN if hasattr(error, "status") else GIVE_CREDENTIALS
    if status == 407:
        return GIVE_PROXY_LOGIN
    # A permission error of a type of its own says what helps itself, as does that of a file here.
    is_refused = type(error) is PermissionError and error.filename is None
    if is_refused or code in _REFUSED or (status == 403 and not code):
        return NOT_ALLOWED
    return TRY_LATER if status is not None and status >= 500 else ""


def _code_of(error: BaseException) -> str:
    """Return the code by which S3 or Azure refused a request; empty if unknown."""
    of_azure = getattr(error, "error_code", None)
    if of_azure is not None:
        return str(getattr(of_azure, "value", of_azure))
    of_s3 = _answer_of_s3(error).get("Error")
    if isinstance(of_s3, Mapping):
        return str(of_s3.get("Code", ""))
    # gcsfs makes an OSError of this kind of answer, without its code.
    return "Forbidden" if type(error) is OSError and str(error).startswith("Forbidden: ") else ""


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status of the answer that an error is about; None if unknown."""
    of_s3 = _answer_of_s3(error).get("ResponseMetadata")
    if isinstance(of_s3, Mapping):
        found = of_s3.get("HTTPStatusCode")
        return found if isinstance(found, int) else None
    for name in ("status", "status_code", "code"):  # of a web server, Azure, Google Cloud
        found = getattr(error, name, None)
        if isinstance(found, int) and 400 <= found < 600:
            return found
    return None


def _answer_of_s3(error: BaseException) -> Mapping[str, object]:
    """Return what S3 answered; s3fs raises an OSError from botocore's. Empty for other stores."""
    answer = getattr(error.__cause__, "response", None)
    return answer if isinstance(answer, Mapping) else {}


def _is_unreachable(error: BaseException) -> bool:
    """Return whether an error says that there is no connection to a server."""
    if isinstance(error, OSError) and error.errno in _UNREACHABLE_ERRNOS:
        return True
    return _is_of_library(error, _UNREACHABLE_NAMES)


def _is_of_library(error: BaseException, names: Sequence[str]) -> bool:
    """Return whether an error is one of a client library with a part of its name among `names`."""
    return any(
        kind.__module__.partition(".")[0] in _CLIENT_LIBRARIES
        and any(name in kind.__name__ for name in names)
        for kind in type(error).__mro__
    )


def message_of(error: BaseException) -> str:
    """Return the message of an error, or its type: a timeout, for example, has no message.

    Values in Rust, the XML of an answer, or all places of a library that was not found (Java's, for
    HDFS), which some libraries add, say nothing more. Of several lines, one is made.
    """
    status = _status_of(error)
    if hasattr(error, "request_info"):  # of aiohttp, which quotes the URL again
        return f"{status} {getattr(error, 'message', '')}".strip()
    if _answer_of_s3(error) and not _code_of(error):  # of a proxy, not of the store
        return f"the answer has the status {status}, and is not that of S3"
    lines = _REST.split(str(error), maxsplit=1)[0].splitlines()
    said = [line.strip() for line in lines if not line.startswith(_OF_REQUEST)]
    text = _ERROR_NUMBER.sub("", " ".join(line for line in said if line), count=1)
    if isinstance(error, LookupError):
        return f"what answered is not such a store ({type(error).__name__}: {text})"
    return text or type(error).__name__
