"""Lance tables as files, as Arrow and as SQL, from plain Python.

>>> import lancefs
>>> orders = lancefs.open("orders.lance", version=7)  # doctest: +SKIP
>>> orders.to_table(columns=["city"], filter="price > 3")  # doctest: +SKIP
>>> lancefs.sql("SELECT count(*) FROM 'orders.lance@v7'")  # doctest: +SKIP

`open` returns a `LanceDataset`, one version of a table. `LanceFileSystem` is the fsspec filesystem
of `lance://` URLs. The errors are in `lancefs.errors`; `lancefs.spark` and `duckdb_adapter` are
imported on their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancefs.version import __version__

if TYPE_CHECKING:
    from duckdb_adapter.sessions import sql
    from lancefs import errors
    from lancefs.datafile.kernels import kernels_in_use
    from lancefs.errors import LanceError
    from lancefs.filesystem import LanceFileSystem
    from lancefs.lance_dataset import LanceDataset, LanceFragment
    from lancefs.opening import dataset, open
    from lancefs.scan.range_files import keep_ranges
    from lancefs.scan.scanner import LanceScanner
    from lancefs.search.text_query import (
        BooleanQuery,
        BoostQuery,
        MatchQuery,
        MultiMatchQuery,
        PhraseQuery,
    )
    from lancefs.table.base_paths import BaseRules

__all__ = [
    "BaseRules",
    "BooleanQuery",
    "BoostQuery",
    "LanceDataset",
    "LanceError",
    "LanceFileSystem",
    "LanceFragment",
    "LanceScanner",
    "MatchQuery",
    "MultiMatchQuery",
    "PhraseQuery",
    "__version__",
    "dataset",
    "errors",
    "keep_ranges",
    "kernels_in_use",
    "open",
    "sql",
]

# What needs pyarrow and fsspec is imported when it is first used: `import lancefs` stays cheap.
_HOMES = {
    "BaseRules": "lancefs.table.base_paths",
    "BooleanQuery": "lancefs.search.text_query",
    "BoostQuery": "lancefs.search.text_query",
    "LanceDataset": "lancefs.lance_dataset",
    "LanceError": "lancefs.errors",
    "LanceFileSystem": "lancefs.filesystem",
    "LanceFragment": "lancefs.lance_dataset",
    "LanceScanner": "lancefs.scan.scanner",
    "MatchQuery": "lancefs.search.text_query",
    "MultiMatchQuery": "lancefs.search.text_query",
    "PhraseQuery": "lancefs.search.text_query",
    "keep_ranges": "lancefs.scan.range_files",
    "kernels_in_use": "lancefs.datafile.kernels",
    "dataset": "lancefs.opening",
    "open": "lancefs.opening",
    "sql": "duckdb_adapter.sessions",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        from lancefs.other_names import MODULE

        meant = f": {MODULE[name]}" if name in MODULE else ""
        raise AttributeError(f"module 'lancefs' has no attribute {name!r}{meant}")
    from importlib import import_module

    if name == "errors":
        return import_module("lancefs.errors")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
