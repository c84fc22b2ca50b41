"""Admission of requests: method, token, and the number of concurrent requests."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from lancefs.serve.refusals import refusal

METHODS = ("GET", "HEAD")


class Guard:
    """An ASGI application that lets requests through to another one.

    Args:
        app: The other one.
        token: What clients must show; None for no token.
        most: Requests that may be under way; more are refused with 503 and `Retry-After`.
    """

    def __init__(self, app: ASGIApp, token: str | None, most: int) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._most = most
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["method"] not in METHODS:
            text = f"{scope['method']}: tables are read-only; use GET or HEAD"
            answer = refusal(405, text, {"Allow": ", ".join((*METHODS, "OPTIONS"))})
            return await answer(scope, receive, send)
        if self._token is not None and not _shows(scope["headers"], self._token):
            text = "a token is needed: send the header 'Authorization: Bearer …'"
            # A browser asks its user: any name, and the token as the password.
            challenge = 'Bearer realm="lancefs", Basic realm="lancefs", charset="UTF-8"'
            answer = refusal(401, text, {"WWW-Authenticate": challenge})
            return await answer(scope, receive, send)
        if self._under_way >= self._most:
            answer = refusal(503, "too many requests at once; try again", {"Retry-After": "1"})
            return await answer(scope, receive, send)
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1


def _shows(headers: Iterable[tuple[bytes, bytes]], token: bytes) -> bool:
    """Return whether a request shows the token, as a bearer or as the password of any user."""
    given = dict(headers).get(b"authorization", b"")
    scheme, _, shown = given.partition(b" ")
    shown = shown.strip()
    if scheme.lower() == b"basic":
        try:
            shown = base64.b64decode(shown, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != b"bearer":
        return False
    return hmac.compare_digest(shown, token)
