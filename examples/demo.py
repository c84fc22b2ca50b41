"""What lancefs does, on the orders of a small tea shop: `make demo`.

The table is `examples/data/orders.lance`, four versions, written by pylance through
`examples/make_table.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import fsspec
import pandas as pd

import duckdb_adapter

HERE = Path(__file__).resolve().parent
TABLE = "data/orders.lance"
# Directories of the tree that the demo does not go into: there is one for each version.
SHOWN = 2


def title(text: str) -> None:
    """Print what comes next."""
    print(f"\n\033[1m{text}\033[0m\n" if os.isatty(1) else f"\n== {text}\n")


def show_tree() -> None:
    """Print the views of the table, as any program that knows fsspec sees them."""
    fs = fsspec.filesystem("lance")
    table = str(HERE / TABLE)
    print(f"lance://{TABLE}/")
    for directory, directories, files in fs.walk(table, maxdepth=SHOWN):
        depth = directory.rstrip("/").count("/") - table.count("/")
        indent = "    " * (depth + 1)
        if depth:
            print("    " * depth + directory.rstrip("/").rsplit("/", 1)[-1] + "/")
        for name in sorted(files):
            size = fs.size(f"{directory}/{name}") if name.endswith(".arrow") else None
            print(indent + (name if size is None else f"{name:<16}{size:>10,} bytes"))
        if depth == SHOWN - 1:
            for name in sorted(directories):
                print(f"{indent}{name}/ …")


def show_sql() -> None:
    """Query versions of the table by name."""
    duckdb_adapter.install()
    with duckdb.connect() as con:
        con.sql(
            f"""
            SELECT version, timestamp, operation, rows, tags, schema_changes
            FROM lance_versions('{TABLE}')
            """
        ).show()
        print("Version 1 still has the orders that were only tests; version 2 deleted them:\n")
        con.sql(
            f"""
            SELECT a.order_id, a.ordered_at, a.tea, a.quantity
            FROM '{TABLE}@v1' AS a ANTI JOIN '{TABLE}@v2' AS b USING (order_id)
            ORDER BY order_id LIMIT 3
            """
        ).show()
        print("Version 3, tagged 'prod', has a column more, total:\n")
        con.sql(
            f"""
            SELECT city, count(*) AS orders, sum(total) AS revenue, arg_max(tea, total) AS favourite
            FROM '{TABLE}@prod' GROUP BY city ORDER BY revenue DESC
            """
        ).show()


def show_pandas() -> None:
    """Read two columns of an old version with pandas, which knows nothing of Lance."""
    url = f"lance://{HERE / TABLE}/versions/2.arrow"
    print(f'pd.read_feather("lance://…/{TABLE}/versions/2.arrow", columns=["city", "tea"])\n')
    print(pd.read_feather(url, columns=["city", "tea"]))


def main() -> None:
    """Show it all."""
    os.chdir(HERE)
    title("A table is a tree of files: every version, tag and branch")
    show_tree()
    title("SQL on any version, by path")
    show_sql()
    title("The same version in pandas")
    show_pandas()


if __name__ == "__main__":
    main()
