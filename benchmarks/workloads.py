"""What is measured, and how each reader does it.

A workload is what is wanted, a method is a way to get it. `prepare` returns a function that does it
once. Nothing is imported before it is needed, because each pair runs in a process of its own, and
some are measured from that process's start.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Environment that a method's process is started with.
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "lancefs": {},
    "lancefs-numpy": {"LANCEFS_KERNELS": "numpy"},
    "pylance": {},
    "pylance-tuned": {"LANCE_CPU_THREADS": "2"},
    "parquet": {},
    "duckdb-parquet": {},
}
METHODS = tuple(ENVIRONMENTS)
TUNED_BATCH = 64 * 1024

Q1 = """
SELECT flag, status, sum(quantity), sum(price), sum(price * (1 - discount)),
       sum(price * (1 - discount) * (1 + tax)), avg(quantity), avg(price), avg(discount), count(*)
FROM {source} WHERE shipdate <= DATE '1998-09-02' GROUP BY ALL ORDER BY ALL
"""
Q6 = """
SELECT sum(price * discount) FROM {source}
WHERE shipdate >= DATE '1994-01-01' AND shipdate < DATE '1995-01-01'
  AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24
"""

# Spread over the tables of all sizes that are measured.
IN_100 = f"id in ({', '.join(str(7_919 * number % 400_000) for number in range(100))})"

# Arguments of vector searches, which pylance and lancefs share.
SEARCHES: dict[str, dict[str, Any]] = {
    "flat": {"use_index": False},
    "index": {"nprobes": 20, "refine_factor": 5},
}


@dataclass(frozen=True)
class Workload:
    """Something to read.

    Attributes:
        table: The table, as `tables.prepare` names it, without its suffix.
        columns: The columns to read; all where it is None.
        kind: `table`, `filter`, `take`, `count`, `stream`, `sql`, `head` or `import`; `few` and
            `ten` are the first ten rows, and ten rows taken, in a process that runs already; `find`
            and `tally` read and count the rows that a filter keeps, of a dataset that is open, and
            `nearest` finds the ten rows whose vectors are nearest to one, `search` those whose
            texts fit best.
        query: What DuckDB is asked where the kind is `sql`; the filter of `find` and `tally`; the
            name of the arguments of `nearest`, in `SEARCHES`; the words of `search`, a phrase in
            quotation marks.
        target: The ratio to pylance that we want to reach, or None.
    """

    table: str
    columns: tuple[str, ...] | None = None
    kind: str = "table"
    query: str = ""
    target: float | None = None

    @property
    def is_cold(self) -> bool:
        """Whether the start of the process is part of what is measured."""
        return self.kind in ("head", "import")


WORKLOADS = {
    "whole table 2.0": Workload("lines-2.0"),
    "whole table 2.1": Workload("lines-2.1", target=4),
    "whole table 2.2": Workload("lines-2.2", target=4),
    "int64, sorted": Workload("lines-2.1", ("orderkey",), target=1.5),
    "int64": Workload("lines-2.1", ("partkey",), target=1.5),
    "int64, small": Workload("lines-2.1", ("linenumber",), target=1.5),
    "decimal": Workload("lines-2.1", ("price",), target=1.5),
    "decimal, few values": Workload("lines-2.1", ("discount",), target=1.5),
    "date": Workload("lines-2.1", ("shipdate",), target=1.5),
    "string, 3 values": Workload("lines-2.1", ("flag",), target=2),
    "string, 7 values": Workload("lines-2.1", ("shipmode",), target=2),
    "text": Workload("lines-2.1", ("comment",), target=2),
    "text 2.2": Workload("lines-2.2", ("comment",), target=2),
    "vector of 768": Workload("vectors-2.1", ("vector",), target=1.5),
    "list of int32": Workload("nested-2.1", ("list",), target=1.5),
    "struct": Workload("nested-2.1", ("struct",), target=1.5),
    "nullable int64": Workload("nested-2.1", ("nullable",), target=1.5),
    "nullable text": Workload("nested-2.1", ("nullable_text",), target=2),
    "filter, 0.1 % kept": Workload("lines-2.1", kind="filter", target=2),
    "take 1,000 rows": Workload("lines-2.1", kind="take", target=1),
    "import, new process": Workload("lines-2.1", kind="import"),
    "head(10), new process": Workload("lines-2.1", kind="head", target=1.2),
    "count": Workload("lines-2.1", kind="count"),
    "10 % deleted": Workload("deleted"),
    "1,000 fragments": Workload("fragments"),
    "filter, 1,000 fragments": Workload("fragments", kind="filter"),
    "take, 1,000 fragments": Workload("fragments", kind="take"),
    "id = x, BTREE": Workload("indexed", kind="find", query="id = 4711", target=0.5),
    "string =, BTREE": Workload("indexed", kind="find", query="name = 'user-00004711'", target=0.5),
    "IN of 100, BTREE": Workload("indexed", kind="find", query=IN_100, target=0.5),
    "count of one value, BITMAP": Workload(
        "indexed", kind="tally", query="city = 'c07'", target=0.5
    ),
    "part of a text, NGRAM": Workload(
        "articles", kind="find", query="contains(title, 'w4711')", target=0.5
    ),
    "item of a list, LABEL_LIST": Workload(
        "articles", kind="find", query="array_has(tags, 'w471')", target=0.5
    ),
    "text, a rare word": Workload("articles", kind="search", query="w20011", target=1),
    "text, rare and frequent": Workload(
        "articles", kind="search", query="w20011 w500 w8", target=0.5
    ),
    "text, three frequent": Workload("articles", kind="search", query="w3 w5 w8", target=0.33),
    "text, all of three": Workload("articles", kind="search", query="+w300 w50 w8", target=0.5),
    "text, a phrase": Workload("articles", kind="search", query='"w3 w40"', target=0.5),
    "nearest of all": Workload("embeddings", kind="nearest", query="flat", target=1),
    "nearest, IVF_PQ": Workload("embeddings", kind="nearest", query="index", target=0.67),
    "open + count, 1,500 fragments": Workload("small-fragments", kind="count", target=1),
    "open + head(10), 1,500 fragments": Workload("small-fragments", kind="few", target=1),
    "open + take 10, 1,500 fragments": Workload("small-fragments", kind="ten", target=1),
    "open + count, 1,500 versions": Workload("versions", kind="count", target=1),
    "open + head(10), 1,500 versions": Workload("versions", kind="few", target=1),
    "open + count, 100,000 fragments": Workload("many-fragments", kind="count", target=1),
    "open + take 10, 100,000 fragments": Workload("many-fragments", kind="ten", target=1),
    "DuckDB Q1": Workload("lines-2.1", kind="sql", query=Q1, target=1.3),
    "DuckDB Q6": Workload("lines-2.1", kind="sql", query=Q6, target=1.3),
    "stream": Workload("lines-2.1", kind="stream"),
    "stream of vectors": Workload("vectors-2.1", kind="stream"),
    "stream of documents": Workload("documents-2.1", kind="stream"),
    "stream of 200 columns": Workload("wide-2.1", kind="stream"),
}


def supports(method: str, workload: Workload) -> bool:
    """Whether a method can do a workload: Parquet has the one table, only DuckDB has SQL."""
    if "parquet" in method and not workload.table.startswith("lines"):
        return False
    return not (method == "parquet" and workload.kind == "sql")


def prepare(method: str, workload: Workload, home: Path) -> Callable[[], Any]:
    """Return a function that does a workload once and returns what it read."""
    path = os.fspath(home / f"{workload.table}.lance")
    parquet = os.fspath(home / "lines.parquet")
    if workload.kind == "import":
        return lambda: _imported(method)
    if method == "duckdb-parquet":
        return _duckdb(parquet, workload)
    if workload.kind == "sql":
        return _query(method, path, workload.query)
    options = {"batch_size": TUNED_BATCH} if method == "pylance-tuned" else {}
    source = parquet if method == "parquet" else path
    return _dataset(lambda: _imported(method)(source), options, workload)


def _imported(method: str) -> Callable[[str], Any]:
    """Import what a method needs, and return its function that opens a dataset."""
    if method.startswith("lancefs"):
        import lancefs

        return lancefs.open
    if method.startswith("pylance"):
        import lance

        return lance.dataset
    if method == "duckdb-parquet":
        import duckdb

        return duckdb.read_parquet
    import pyarrow.dataset

    return pyarrow.dataset.dataset


def _dataset(
    opened: Callable[[], Any], options: dict[str, Any], workload: Workload
) -> Callable[[], Any]:
    """The readers of Lance and pyarrow's own have nearly the same interface."""
    columns = None if workload.columns is None else list(workload.columns)
    if workload.kind in ("find", "tally"):  # indices are opened by the first look-up
        kept = opened()
        if workload.kind == "tally":
            return lambda: kept.count_rows(filter=workload.query)
        return lambda: kept.to_table(filter=workload.query, **options)

    if workload.kind == "search":
        return _search(opened(), workload.query)
    if workload.kind == "nearest":
        return _nearest(opened(), SEARCHES[workload.query])

    def read() -> Any:
        dataset = opened()
        match workload.kind:
            case "filter":
                import pyarrow.compute as pc

                return dataset.to_table(filter=pc.field("partkey") < 200, **options)
            case "take":
                return dataset.take(_rows(dataset.count_rows()))
            case "ten":
                return dataset.take(_rows(dataset.count_rows(), 10))
            case "count":
                return dataset.count_rows()
            case "head" | "few":
                return dataset.head(10)
            case "stream":
                return sum(batch.num_rows for batch in dataset.to_batches(**options))
        return dataset.to_table(columns=columns, **options)

    return read


def _nearest(dataset: Any, options: dict[str, Any]) -> Callable[[], Any]:
    """Find the ten rows whose vectors are nearest to one."""
    import numpy as np

    q = np.random.default_rng(23).standard_normal(128, np.float32)
    if hasattr(dataset, "nearest"):
        return lambda: dataset.nearest("vector", q, 10, columns=["id"], **options)
    asked = {"column": "vector", "q": q, "k": 10, **options}
    return lambda: dataset.to_table(columns=["id", "_distance"], nearest=asked)


def _search(dataset: Any, query: str) -> Callable[[], Any]:
    """Find the ten rows whose texts fit best; `+` before the first word asks for all of them."""
    if hasattr(dataset, "text_search"):
        from lancefs import MatchQuery, PhraseQuery

        operators: Any = {"OR": "OR", "AND": "AND"}
    else:
        from lance.query import FullTextOperator, MatchQuery, PhraseQuery

        operators = FullTextOperator
    operator = operators["AND" if query.startswith("+") else "OR"]
    asked: Any = MatchQuery(query.lstrip("+"), "body", operator=operator)
    if query.startswith('"'):
        asked = PhraseQuery(query.strip('"'), "body")
    if hasattr(dataset, "text_search"):
        return lambda: dataset.search(asked, k=10, select=["id"])
    wanted = {"columns": ["id", "_score"], "limit": 10}
    return lambda: dataset.to_table(full_text_query=asked, **wanted)


def _query(method: str, path: str, query: str) -> Callable[[], Any]:
    """Query a Lance table in DuckDB: by its path with lancefs, registered with pylance."""
    import duckdb

    if method.startswith("lancefs"):
        import duckdb_adapter

        duckdb_adapter.install()
        asked = query.format(source=f"'{path}'")
        return lambda: duckdb.connect().sql(asked).fetchall()
    import lance

    def read() -> Any:
        with duckdb.connect() as connection:
            connection.register("lines", lance.dataset(path))
            return connection.sql(query.format(source="lines")).fetchall()

    return read


def _duckdb(path: str, workload: Workload) -> Callable[[], Any]:
    import duckdb

    columns = ", ".join(workload.columns or ("*",))

    def read() -> Any:
        with duckdb.connect() as connection:
            source = connection.read_parquet(path)
            match workload.kind:
                case "filter":
                    return source.filter("partkey < 200").to_arrow_table()
                case "take":
                    rows = ", ".join(map(str, _rows(source.count("*").fetchall()[0][0])))
                    chosen = f"SELECT * FROM '{path}' WHERE file_row_number IN ({rows})"
                    return connection.sql(chosen).to_arrow_table()
                case "count":
                    return source.count("*").fetchall()[0][0]
                case "head":
                    return source.limit(10).to_arrow_table()
                case "sql":
                    return connection.sql(workload.query.format(source=f"'{path}'")).fetchall()
                case "stream":
                    reader = source.to_arrow_reader(TUNED_BATCH)
                    return sum(batch.num_rows for batch in reader)
            return source.project(columns).to_arrow_table()

    return read


def _rows(total: int, count: int = 1000) -> list[int]:
    import numpy as np

    return np.random.default_rng(3).integers(0, total, count).tolist()
