"""A server of tables in this process, and plain requests to it, for tests."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lancefs.cli.pages.site import TablePages
from lancefs.cli.target import Target
from lancefs.filesystem import LanceFileSystem
from lancefs.serve.app import MAX_REQUESTS, ServedTable, make_app
from lancefs.serve.running import listen, make_server, url_of


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


@dataclass
class Served:
    """A server that runs.

    Attributes:
        url: Where it is; ends with a slash.
        told: What it told whoever runs it.
    """

    url: str
    told: list[str] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Send one request exactly as it is given; `_` in the name of a header is `-`."""
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=names)
            answer = connection.getresponse()
            known = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, known, answer.read())
        finally:
            connection.close()


@contextmanager
def serving(
    *paths: str | Path, token: str | None = None, most_requests: int = MAX_REQUESTS
) -> Iterator[Served]:
    """Serve tables on a free port of this machine, by their last names."""
    targets = {Path(path).name: Target(str(path)) for path in paths}
    tables = {
        name: ServedTable(LanceFileSystem(target.url, skip_instance_cache=True), target.store.url())
        for name, target in targets.items()
    }
    listening = listen("127.0.0.1", 0)
    served = Served(url_of(listening))
    app = make_app(tables, TablePages(targets), token, served.told.append, most_requests)
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="serve")
    thread.start()
    try:
        until = time.monotonic() + 30
        while not server.started and time.monotonic() < until:
            time.sleep(0.01)
        yield served
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
