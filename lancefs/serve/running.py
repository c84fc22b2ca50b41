"""The server: a socket, and uvicorn on it until Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

# Seconds that requests under way have to end after Ctrl-C.
_GRACE = 3


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: A name or an address of this machine.
        port: A port; 0 for any that is free.

    Raises:
        OSError: The address is not of this machine, or the port is in use, or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


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


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server that does not run yet."""
    config = uvicorn.Config(
        app,
        # Whatever else is installed: httptools, which uvicorn prefers, keeps headers of any length.
        http="h11",
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
