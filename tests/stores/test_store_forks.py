"""Tables in stores that a process has read before it was forked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from store_servers import WebServer, web_server
from support import REPOSITORY

from lancefs import forks
from lancefs.errors import ReadFailed
from lancefs.storage import Store
from lancefs.storage.forked import usable_here

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Reads a column, forks, and prints what reading another one in the child comes to. The child has
# ten seconds, so that one which hangs is seen.
PROGRAM = """
import os, signal, sys
import fsspec, lancefs
opened = eval(sys.argv[1])
dataset = opened()
dataset.to_table(columns=["n0"])
sys.stdout.flush()
if os.fork() == 0:
    signal.alarm(10)
    for get in (lambda: dataset, opened):
        try:
            print(get().to_table(columns=["n1"]).num_rows, flush=True)
        except lancefs.LanceError as error:
            print(type(error).__name__, error, flush=True)
    os._exit(0)
_, status = os.wait()
print(status, dataset.to_table(columns=["n2"]).num_rows)
"""


def said(opened: str) -> list[str]:
    """Return the lines that the program prints: of the child for both ways, and of the parent."""
    command = [sys.executable, "-c", PROGRAM, opened]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_dataset_behind_a_web_server_is_read_in_the_child(home: Path, expected: Any) -> None:
    with web_server(WebServer(home)) as url:
        answers = said(f"lambda: lancefs.open('{url}/t.lance')")
    count = str(expected.num_rows)
    assert answers == [count, count, f"0 {count}"]


def test_a_dataset_on_s3_is_read_in_the_child(s3_options: dict[str, Any], expected: Any) -> None:
    answers = said(f"lambda: lancefs.open('s3://lake/t.lance', storage_options={s3_options!r})")
    count = str(expected.num_rows)
    assert answers == [count, count, f"0 {count}"]


def test_a_child_opens_an_archive_anew(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would share the position of the open file with its parent, which reads, too."""
    path = tmp_path / "lake.zip"
    with zipfile.ZipFile(path, "w") as file:
        for one in (home / "t.lance").rglob("*"):
            file.write(one, one.relative_to(home))
    fs = fsspec.filesystem("zip", fo=str(path), skip_instance_cache=True)
    store = Store(fs, "t.lance")
    assert store.fs is fs
    monkeypatch.setattr(forks, "_generation", forks.generation() + 1)  # as in a child
    anew = store.fs
    assert anew.zip.fp is not fs.zip.fp
    assert len(store.names("data")) == len(list((home / "t.lance" / "data").iterdir()))
    assert store.below("data").fs is Store(fs, "t.lance").fs is anew


OBSTORE = """
lambda: lancefs.open("lake/t.lance", filesystem=__import__("obstore.fsspec").fsspec.FsspecStore(
    "s3", endpoint={url}, region="us-east-1", access_key_id="test", secret_access_key="test",
    client_options={{"allow_http": True}}, skip_instance_cache=True))
"""


def test_obstore_is_refused_in_the_child(s3_options: dict[str, Any], expected: Any) -> None:
    """Its threads are gone, and it has no way to start others: it would wait for ever."""
    pytest.importorskip("obstore")
    url = json.dumps(s3_options["client_kwargs"]["endpoint_url"])
    same, new, parent = said(OBSTORE.format(url=url).strip())
    for answer in (same, new):
        assert answer.startswith("ReadFailed s3://lake/t.lance")
        assert "obstore was used before this process was forked" in answer
        assert "start worker processes by 'spawn' or 'forkserver'" in answer
    assert parent == f"0 {expected.num_rows}"


def test_what_cannot_be_made_anew_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    callback: Callable[[], None] = lambda: None  # noqa: E731  # cannot be pickled
    fs = fsspec.filesystem("http", get_client=callback, skip_instance_cache=True)
    store = Store(fs, "http://localhost/t.lance")
    monkeypatch.setattr(fs, "_pid", -1)  # as if another process had made it
    with pytest.raises(ReadFailed, match=r"localhost/t\.lance: the filesystem was made before"):
        _ = store.fs
    assert store.url("x") == "http://localhost/t.lance/x"  # messages can still name files


def test_filesystems_around_others_are_made_anew_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = fsspec.filesystem("http", skip_instance_cache=True)
    around = fsspec.filesystem("dir", path="http://localhost", fs=fs, skip_instance_cache=True)
    assert usable_here(around, "x") is around
    monkeypatch.setattr(fs, "_pid", -1)
    anew = usable_here(around, "x")
    assert anew is not around
    assert anew.path == "http://localhost"
    assert anew.fs._pid == os.getpid()
    assert usable_here(around, "x") is anew
