"""Measures SQL over Lance tables in DuckDB: `make bench-duckdb`.

The tables are four of TPC-H at scale factor 1 (`lineitem` has 6 M rows), made by DuckDB's own
extension; `logs`, 3 M rows of times, strings, numbers and a struct; and `fragments`, 1,500
fragments of 200 such rows. They are as pylance writes them by default, and as DuckDB writes Parquet
(one file; the logs with zstd). Each method answers each query in a process of its own: once to warm
up, then five times, of which the median counts. Every query looks for the newest version of a
path; pylance's dataset is opened once, and registered.

A ratio is the time of another method over that of lancefs in the same DuckDB: above 1, lancefs is
faster. At the end of a row, our time is given as a multiple of Parquet's, with the target for it.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from run import machine, print_machine

CHECKOUT = Path(__file__).resolve().parent.parent
RUNS = 5
TIMEOUT = 600
NEW, OLD = CHECKOUT / ".venv/bin/python", CHECKOUT / ".venv-duckdb15/bin/python"


class Query(NamedTuple):
    """What is measured.

    Attributes:
        text: SQL; of TPC-H the name of a query in a file, as DuckDB's extension spells it.
        target: The most that lancefs should take, as a multiple of what Parquet takes.
    """

    text: str
    target: float | None = None


QUERIES = {
    "count(*)": Query("SELECT count(*) FROM {lineitem}"),
    "one sum": Query("SELECT sum(l_extendedprice) FROM {lineitem}", 0.8),
    "TPC-H Q1": Query("q1", 1.5),
    "TPC-H Q3": Query("q3", 1.5),
    "TPC-H Q6": Query("q6", 1.5),
    "TPC-H Q14": Query("q14", 1.5),
    "LIMIT 10": Query("SELECT * FROM {lineitem} LIMIT 10"),
    "filter, 0.1 % kept": Query("SELECT * FROM {lineitem} WHERE l_partkey < 200"),
    "join": Query("""
        SELECT o_orderpriority, count(*), sum(l_extendedprice)
        FROM {orders} JOIN {lineitem} ON l_orderkey = o_orderkey
        WHERE o_orderdate >= DATE '1997-01-01' GROUP BY 1 ORDER BY 1
    """),
    "logs: count(*)": Query("SELECT count(*) FROM {logs}", 0.8),
    "logs: sum": Query("SELECT sum(bytes) FROM {logs}", 0.8),
    "logs: max(length)": Query("SELECT max(length(message)) FROM {logs}", 0.8),
    "logs: one string": Query("SELECT level, count(*) FROM {logs} GROUP BY level", 1.0),
    "logs: two strings": Query(
        "SELECT level, host, count(*), avg(latency) FROM {logs} GROUP BY level, host", 1.3
    ),
    "logs: unique strings": Query("SELECT count(DISTINCT message) FROM {logs}"),
    "logs: LIKE": Query("SELECT count(*) FROM {logs} WHERE host LIKE '%-01%'"),
    "logs: min, max": Query("SELECT min(ts), max(ts), count(*) FROM {logs}"),
    "logs: top 10": Query("SELECT latency FROM {logs} ORDER BY latency LIMIT 10", 1.3),
    "logs: top 10 of *": Query("SELECT * FROM {logs} ORDER BY latency LIMIT 10", 1.5),
    "logs: member": Query("SELECT count(req.trace) FROM {logs}", 2.0),
    "logs: member, sum": Query("SELECT sum(req.status) FROM {logs}", 2.0),
    "logs: id = 123": Query("SELECT * FROM {logs} WHERE id = 123", 0.3),
    "logs: BETWEEN": Query(
        "SELECT * FROM {logs} WHERE ts BETWEEN TIMESTAMP '2026-01-01 00:20:00' "
        "AND TIMESTAMP '2026-01-01 00:20:05'",
        1.2,
    ),
    "logs: upper(host)": Query("SELECT * FROM {logs} WHERE upper(host) = 'HOST-007.EXAMPLE'"),
    "logs: two columns": Query("SELECT * FROM {logs} WHERE latency > bytes * 1000"),
    "logs: top 5 of a product": Query("SELECT * FROM {logs} ORDER BY latency * bytes DESC LIMIT 5"),
    "fragments: sum": Query("SELECT sum(bytes) FROM {fragments}", 4.0),
    "fragments: id = 5000": Query("SELECT * FROM {fragments} WHERE id = 5000", 4.0),
    "fragments: strings": Query("SELECT level, count(*) FROM {fragments} GROUP BY level", 4.0),
}
TPCH = ("lineitem", "orders", "customer", "part")
TABLES = (*TPCH, "logs", "fragments")
# Rows of `logs` at scale 1, and of `fragments` at any scale, in files of so many rows.
LOGS, FRAGMENTS, ROWS_OF_A_FRAGMENT = 3_000_000, 1_500, 200
ROWS_OF_LOGS = """
    SELECT n AS id, TIMESTAMP '2026-01-01' + to_milliseconds(n) AS ts,
        ['debug', 'info', 'warn', 'error'][1 + (hash(n) % 4)::BIGINT] AS level,
        format('host-{{:03d}}.example', hash(n + 1) % 200) AS host,
        format('request {{}} took {{}} ms', n, hash(n + 2) % 1000) AS message,
        hash(n + 3) / 1e16 AS latency,
        (hash(n + 4) % 100000)::BIGINT AS bytes,
        {{'trace': md5(n::VARCHAR), 'status': (hash(n + 5) % 500)::INTEGER}} AS req
    FROM range({rows}) AS numbers(n)
"""


def _installed(home: Path) -> tuple[Any, dict[str, str]]:
    import duckdb

    import duckdb_adapter

    duckdb_adapter.install()
    return duckdb.connect(), _paths(home, "lance")


def _wrapped(home: Path) -> tuple[Any, dict[str, str]]:
    import duckdb_adapter

    return duckdb_adapter.connect(), _paths(home, "lance")


def _pylance(home: Path) -> tuple[Any, dict[str, str]]:
    import duckdb
    import lance

    connection = duckdb.connect()
    for name in TABLES:
        connection.register(f"{name}_dataset", lance.dataset(str(home / f"{name}.lance")))
    return connection, {name: f"{name}_dataset" for name in TABLES}


def _parquet(home: Path) -> tuple[Any, dict[str, str]]:
    import duckdb

    return duckdb.connect(), _paths(home, "parquet")


def _official(home: Path) -> tuple[Any, dict[str, str]]:
    import duckdb

    connection = duckdb.connect()
    load_extension(connection, "lance")
    return connection, _paths(home, "lance")


SUFFIXES = ("lance", "parquet")


def _paths(home: Path, suffix: str) -> dict[str, str]:
    return {name: f"'{home / name}.{suffix}'" for name in TABLES}


# Method -> the Python that it needs, and what connects. The first of each Python is ours.
METHODS: dict[str, tuple[Path, Callable[[Path], tuple[Any, dict[str, str]]]]] = {
    "lancefs": (NEW, _installed),
    "pylance": (NEW, _pylance),
    "parquet": (NEW, _parquet),
    "lancefs, 1.5": (OLD, _wrapped),
    "pylance, 1.5": (OLD, _pylance),
    "official, 1.5": (OLD, _official),
}


def load_extension(connection: Any, name: str) -> None:
    """Load an extension from the package that brings it, and install nothing."""
    package = find_spec(f"duckdb_extension_{name}")
    if package is None or package.origin is None:
        raise SystemExit(
            f"duckdb-extension-{name} is not installed: make .venv-duckdb15/.installed"
        )
    (file,) = Path(package.origin).parent.rglob(f"{name}.duckdb_extension")
    connection.execute(f"LOAD '{file}'")


def make_tables(home: Path, scale: float) -> None:
    """Write the tables, and two queries last: when those are there, all is."""
    import duckdb
    import lance

    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with duckdb.connect() as connection:
        load_extension(connection, "tpch")
        connection.execute(f"CALL dbgen(sf = {scale})")
        for name, rows in (
            ("logs", round(LOGS * scale)),
            ("fragments", FRAGMENTS * ROWS_OF_A_FRAGMENT),
        ):
            connection.execute(f"CREATE TABLE {name} AS {ROWS_OF_LOGS.format(rows=rows)}")
        for name in TABLES:
            compression = "" if name in TPCH else "(COMPRESSION zstd)"
            connection.execute(f"COPY {name} TO '{home / name}.parquet' {compression}")
            reader = connection.execute(f"FROM {name}").to_arrow_reader(1 << 16)
            most = {"max_rows_per_file": ROWS_OF_A_FRAGMENT} if name == "fragments" else {}
            lance.write_dataset(reader, str(home / f"{name}.lance"), **most)
        found = connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
    queries = {f"q{number}": text.rstrip().rstrip(";") for number, text in found}
    (home / "queries.json").write_text(json.dumps(queries))


def measure(method: str, name: str, home: Path) -> dict[str, Any]:
    """Answer one query by one method, in this process."""
    text = QUERIES[name].text
    queries = json.loads((home / "queries.json").read_text())
    if text in queries:
        text = re.sub(rf"\b({'|'.join(TPCH)})\b", r"{\1}", queries[text])
    connection, tables = METHODS[method][1](home)
    query = text.format(**tables)
    answer = connection.execute(query).fetchall()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        connection.execute(query).fetchall()
        times.append(time.perf_counter() - start)
    rows = sorted(map(_spelled, answer)) if name != "LIMIT 10" else len(answer)
    return {"seconds": statistics.median(times), "times": times, "answer": rows}


def _spelled(row: tuple[Any, ...]) -> str:
    """Spell a row; sums of floats depend on the order in which threads come."""
    return repr([float(f"{value:.10g}") if isinstance(value, float) else value for value in row])


def in_a_process(python: Path, *arguments: str) -> dict[str, Any]:
    """Run this file in a new process; what goes wrong there is in the result."""
    done = subprocess.run(
        [str(python), __file__, *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    home = Path(options.home) / str(options.scale)
    if options.one:
        print(json.dumps(measure(*options.one, home)))
        return
    if options.make:
        make_tables(home, options.scale)
        print("{}")
        return
    rest = ["--home", options.home, "--scale", str(options.scale)]
    needed = ["queries.json", *(f"{name}.{suffix}" for name in TABLES for suffix in SUFFIXES)]
    if not all((home / name).exists() for name in needed):
        made = in_a_process(OLD, "--make", *rest)
        if made:
            raise SystemExit(made["error"])
    about = machine()
    print_machine(about)
    print(f"{'ms':20}" + "".join(f"{method:>24}" for method in options.methods))
    report: dict[str, Any] = {"machine": about, "results": {}}
    for name in [name for name in QUERIES if re.search(options.only, name)]:
        results = {
            method: in_a_process(METHODS[method][0], "--one", method, name, *rest)
            for method in options.methods
        }
        print_row(name, results)
        report["results"][name] = results
    (home / "results.json").write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {home / 'results.json'}")


def print_row(name: str, results: dict[str, dict[str, Any]]) -> None:
    """Print the times of one query, each with its ratio to ours in the same DuckDB."""
    ours = {METHODS[method][0]: method for method in reversed(results)}
    cells = []
    answers: dict[str, Any] = {}
    for method, result in results.items():
        mine = results[ours[METHODS[method][0]]]
        cell = "-"
        if "seconds" in result:
            answers[method] = result.pop("answer")
            cell = f"{result['seconds'] * 1e3:,.1f}"
            if "seconds" in mine and mine is not result:
                cell += f" ({result['seconds'] / mine['seconds']:.2f})"
        cells.append(f"{cell:>24}")
    print(f"{name:20}{''.join(cells)}{_against_parquet(name, results)}", flush=True)
    for method, result in results.items():
        if "error" in result:
            print(f"  {method}: {result['error']}")
    for method, answer in answers.items():
        first = next(iter(answers))
        if answer != answers[first]:
            print(f"  {method}: another answer than {first}: {_difference(answer, answers[first])}")


def _difference(answer: Any, expected: Any) -> str:
    """Return the first rows that differ, or how many rows there are."""
    if not isinstance(answer, list) or len(answer) != len(expected):
        counts = [len(rows) if isinstance(rows, list) else rows for rows in (answer, expected)]
        return "{} rows in place of {}".format(*counts)
    pairs = zip(answer, expected, strict=True)
    return "{} in place of {}".format(*next(pair for pair in pairs if pair[0] != pair[1]))


def _against_parquet(name: str, results: dict[str, dict[str, Any]]) -> str:
    """Return our time as a multiple of Parquet's, and what it should be."""
    ours, parquet = (results.get(method, {}).get("seconds") for method in ("lancefs", "parquet"))
    if ours is None or parquet is None:
        return ""
    target = QUERIES[name].target
    return f"   {ours / parquet:.2f} × Parquet" + ("" if target is None else f" (target {target})")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H; 1 is 6 M rows")
    parser.add_argument("--only", default="", help="queries whose name matches this pattern")
    parser.add_argument(
        "--methods",
        type=lambda text: text.split(";"),
        default=list(METHODS),
        help=f"of {'; '.join(METHODS)}, with semicolons between them",
    )
    parser.add_argument("--home", default=str(CHECKOUT / "build" / "bench-duckdb"))
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
