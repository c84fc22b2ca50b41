"""The server: a socket, and uvicorn on it until Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

# Seconds that requests under way have to end after Ctrl-C.
_GRACE = 3
# Seconds after which a connection is ended on which no whole request came, twice that at most.
_SILENT = 30
# Seconds after which a connection is ended whose client takes nothing of what was sent: longer than
# `files` waits for it, which tells of it. A closed socket is kept until its bytes were taken.
_UNTAKEN = 150


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: A name or an address of this machine.
        port: A port; 0 for any that is free.

    Raises:
        OSError: The address is not of this machine, or the port is in use, or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=1024)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it; only Linux has it
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNTAKEN * 1000)
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_for_this_machine(listening: socket.socket) -> bool:
    """Return whether only programs on this machine can connect to a socket."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def run(app: ASGIApp, listening: socket.socket, on_ready: Callable[[], None]) -> None:
    """Answer requests until a signal ends it.

    Args:
        app: Answers them.
        listening: Where they come in.
        on_ready: Is called before the first one is answered.

    Raises:
        KeyboardInterrupt: By Ctrl-C, when the requests under way have ended.
    """
    serving = make_server(app).serve(sockets=[listening])
    try:
        with asyncio.Runner() as runner:
            runner.get_loop()  # made first: one that Ctrl-C leaves half made complains of it
            on_ready()
            runner.run(serving)
    except asyncio.CancelledError:  # by Ctrl-C before uvicorn takes signals
        raise KeyboardInterrupt from None
    finally:
        serving.close()  # where Ctrl-C comes before it runs, Python would warn of it


class _Connection(H11Protocol):
    """A connection that ends when its first or next request does not come, or not to its end.

    uvicorn waits for the rest of a header, and for the first byte of the first one, for ever, so
    that a few hundred clients that say nothing would take all file descriptors.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._looks = self.loop.call_later(_SILENT, self._look, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._looks.cancel()
        super().connection_lost(exc)

    def _look(self, seen: object) -> None:
        """End the connection if it waits for a request, and did so at the last look.

        Args:
            seen: The request that was answered when it waited then; None for none so far.
        """
        cycle = cast(RequestResponseCycle | None, self.cycle)
        waits = cycle is None or cycle.response_complete
        if waits and cycle is seen:
            self.transport.abort()
        else:
            # If a request is under way, the connection has not waited, whatever comes next.
            seen = cycle if waits else object()
            self._looks = self.loop.call_later(_SILENT, self._look, seen)


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server that does not run yet."""
    config = uvicorn.Config(
        app,
        # Whatever else is installed: httptools, which uvicorn prefers, keeps headers of any length.
        http=_Connection,
        # Nothing is logged: URLs and headers may hold secrets, and the application tells of errors.
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_GRACE,
    )
    return uvicorn.Server(config)
