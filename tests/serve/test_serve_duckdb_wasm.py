"""DuckDB's browser build, on a page of another origin, reads what `lancefs serve` serves."""

from __future__ import annotations

import functools
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import lance
import pyarrow as pa
import pytest
from serving import serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = """<!doctype html><script type="importmap">{"imports": {
  "@duckdb/duckdb-wasm": "/node_modules/@duckdb/duckdb-wasm/dist/duckdb-browser.mjs",
  "apache-arrow": "/node_modules/apache-arrow/Arrow.dom.mjs",
  "flatbuffers": "/node_modules/flatbuffers/mjs/flatbuffers.js",
  "tslib": "/node_modules/tslib/tslib.es6.mjs"}}</script>"""

# What docs/serving.md shows, with packages from beside the page.
CONNECT = """async (table) => {
  const duckdb = await import('@duckdb/duckdb-wasm');
  const dist = '/node_modules/@duckdb/duckdb-wasm/dist/';
  const db = new duckdb.AsyncDuckDB(
    new duckdb.VoidLogger(), new Worker(dist + 'duckdb-browser-eh.worker.js'));
  await db.instantiate(dist + 'duckdb-eh.wasm');
  const con = await db.connect();
  const first = async (sql) => (await con.query(sql)).toArray()[0].v;
"""
STREAM = (
    CONNECT
    + """
  for await (const part of (await fetch(table + 'versions/1.arrows')).body)
    await con.insertArrowFromIPCStream(part, {name: 'teas', create: true});
  return first("select concat_ws(' ', count(*), sum(price), max(sold), count(tea)) as v from teas");
}"""
)
COLUMNS = (
    CONNECT
    + """
  const { tableFromIPC } = await import('apache-arrow');
  const file = await tableFromIPC(fetch(table + 'latest/columns/id,tea.arrow'));
  await con.insertArrowTable(file, {name: 'teas', create: true});
  return first("select concat_ws(' ', count(*), sum(id), max(tea)) as v from teas");
}"""
)
TEXT = (
    CONNECT
    + """
  return first(`select content as v from read_text('${table}versions/2/schema.json')`);
}"""
)
PART = """async (table) => {
  const answer = await fetch(table + 'latest.arrow', {headers: {Range: 'bytes=0-5'}});
  return [answer.status, await answer.text(), answer.headers.get('content-range') != null];
}"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a served table, whose stream arrives in many parts."""
    path = tmp_path_factory.mktemp("served") / "teas.lance"
    count = 200_000
    rows = pa.table(
        {
            "id": pa.array(range(count), pa.int32()),
            "price": pa.array(range(count), pa.int32()).cast(pa.decimal128(12, 2)),
            "sold": pa.array(range(count), pa.timestamp("us")),
            "tea": pa.array([("Assam", None, "Ceylon")[i % 3] for i in range(count)]),
        }
    )
    lance.write_dataset(rows, path)
    lance.dataset(path).delete("id >= 10")
    with serving(path) as served:
        yield f"{served.url}teas.lance/"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Any]:
    """A page of another origin, with the packages that the scripts import."""
    folder = tmp_path_factory.mktemp("page")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "@duckdb/duckdb-wasm@1.32"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"duckdb-wasm cannot be installed: {done.stderr[-200:]}")
    (folder / "index.html").write_text(PAGE)
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *parts: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=folder))
    threading.Thread(target=server.serve_forever).start()
    shown = browser.new_page()
    shown.goto(f"http://127.0.0.1:{server.server_port}/index.html")
    yield shown
    shown.close()
    server.shutdown()
    server.server_close()


def test_a_stream_becomes_a_table(page: Any, table: str) -> None:
    latest = "1970-01-01 00:00:00.199999"
    assert page.evaluate(STREAM, table) == f"200000 19999900000.00 {latest} 133333"


def test_some_columns_become_a_table(page: Any, table: str) -> None:
    assert page.evaluate(COLUMNS, table) == "10 45 Ceylon"


def test_documents_are_read_by_url(page: Any, table: str) -> None:
    assert '"name": "price"' in page.evaluate(TEXT, table)


def test_scripts_may_ask_for_ranges(page: Any, table: str) -> None:
    assert page.evaluate(PART, table) == [206, "ARROW1", True]
