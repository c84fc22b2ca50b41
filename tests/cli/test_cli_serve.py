"""`serve`: which tables, under which names, and how it begins and ends."""

from __future__ import annotations

import gc
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import lance
import pyarrow as pa
import pytest
from running import COMMAND, ENVIRONMENT, Here, run_without

from lancefs.cli.exits import INTERRUPTED, MISSING, USAGE
from lancefs.serve.running import listen, run


@contextmanager
def started(arguments: Sequence[str], **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `serve` on a free port; yield the process and what it printed first."""
    command = [*COMMAND, "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **env},
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def ask(line: str, path: str, **headers: str) -> tuple[int, bytes]:
    """Send a request to the server that printed a line."""
    found = re.search(r"http://\S+:\d+", line)
    assert found is not None, line
    connection = http.client.HTTPConnection(urlsplit(found[0]).netloc, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def test_it_serves_the_tables_of_a_folder_until_ctrl_c(shop: Path) -> None:
    with started([str(shop), str(shop / "more" / "deep.lance")]) as (process, line):
        assert line.startswith("2 tables at http://127.0.0.1:")
        status, body = ask(line, "/", Accept="application/json")
        assert status == 200
        assert [one["name"] for one in json.loads(body)["entries"]] == ["teas.lance", "deep.lance"]
        assert ask(line, "/teas.lance/tags/clean.arrow")[0] == 200
        assert ask(line, "/more/")[0] == 404
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == INTERRUPTED
    assert (out, err) == ("", "")


def test_it_serves_the_tables_of_an_archive(shop: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "shop"), "zip", shop)
    with started([f"zip://::{archive}"]) as (_, line):
        assert line.startswith("1 table at ")
        assert ask(line, "/teas.lance/tags/clean.arrow")[0] == 200
        assert ask(line, "/teas.lance/log")[0] == 200


def test_the_token_comes_from_the_environment_and_is_shown_nowhere(shop: Path) -> None:
    arguments = [str(shop), "--host", "0.0.0.0"]
    with started(arguments, LANCEFS_TOKEN="sesame") as (process, line):
        line = line.replace("0.0.0.0", "127.0.0.1")
        assert ask(line, "/?token=sesame")[0] == 401
        assert ask(line, "/", Authorization="Bearer sesame")[0] == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert "sesame" not in line + out + err
    assert err == ""


def test_it_warns_where_others_can_read(shop: Path) -> None:
    with started([str(shop), "--host", "0.0.0.0"]) as (process, line):
        assert "http://0.0.0.0:" in line
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert err == "whoever can reach 0.0.0.0 can read the tables: --token asks for one\n"


def test_ctrl_c_before_the_server_runs_leaves_no_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("nobody asks")

    with listen("127.0.0.1", 0) as listening, pytest.raises(KeyboardInterrupt):
        run(app, listening, interrupted)
    gc.collect()
    assert not recwarn.list


def test_a_port_that_is_taken_is_said(shop: Path, here: Here) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = here("serve", str(shop), "--port", str(port))
    assert done.code == USAGE
    assert f"--port {port}" in done.err
    assert "already in use" in done.err


@pytest.mark.parametrize("module", ["uvicorn", "starlette"])
def test_it_says_what_to_install(shop: Path, module: str) -> None:
    done = run_without(module, "serve", str(shop))
    assert done.code == MISSING
    assert done.err == (
        f"lancefs: serve needs {module}, which is not installed: pip install 'lancefs[serve]'\n"
    )


def test_what_cannot_be_served_is_an_error(shop: Path, tmp_path: Path, here: Here) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "other" / "teas.lance")
    (tmp_path / "folder" / "below").mkdir(parents=True)
    for arguments, what in (
        ([f"{shop}/teas.lance@2"], "leave out the @2"),
        ([str(tmp_path / "none")], "none"),
        ([str(tmp_path / "empty")], "empty"),
        ([str(tmp_path / "folder")], "there is no table in this folder"),
        ([str(shop), f"{tmp_path}/other/teas.lance"], "two tables are named 'teas.lance'"),
        ([str(shop), "--token", " "], "printable ASCII"),
        ([str(shop), "--port", "70000"], "70000"),
        ([str(shop), "--host", "192.0.2.1"], "--host 192.0.2.1"),
    ):
        done = here("serve", *arguments)
        assert done.code == USAGE, arguments
        assert what in done.err
        assert done.err.count("\n") == 1
