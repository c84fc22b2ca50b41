"""SQL functions that search a table by vector or text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from duckdb_adapter.duckdb_types import readable_table
from lancefs.lance_dataset import LanceDataset

if TYPE_CHECKING:
    from lancefs.search.hybrid_search import HybridSearch
    from lancefs.search.text_search import TextSearch
    from lancefs.search.vector_search import VectorSearch

# What the function was called with, by the names of its parameters.
Arguments: TypeAlias = Mapping[str, Any]

# Rows that are returned where `k` is not given.
_K = 10
# How a hybrid search fuses where it is not said, and how many rows of each search.
_ALPHA = 0.5
_OVERSAMPLE_FACTOR = 4


def nearest(dataset: LanceDataset, arguments: Arguments) -> pa.Table:
    """Answer `lance_vector_search`.

    Args:
        dataset: The version of the table.
        arguments: What the function was called with.

    Raises:
        LanceError: The table cannot be read.
        TypeError: The column holds no vectors, or an argument is of another type.
        ValueError: An argument is missing, does not fit the column, or makes no sense.
    """
    column, vector = _required("lance_vector_search", arguments, "column", "vector")
    search = dataset.vector_search(
        column,
        vector,
        _number(arguments, "k", _K),
        arguments.get("metric"),
        nprobes=_nprobes("lance_vector_search", arguments),
        refine_factor=arguments.get("refine_factor"),
        filter=arguments.get("filter"),
        prefilter=_prefilter("lance_vector_search", arguments),
    )
    return _answer(search, arguments)


def best_texts(dataset: LanceDataset, arguments: Arguments) -> pa.Table:
    """Answer `lance_fts`.

    Args:
        dataset: The version of the table.
        arguments: What the function was called with.

    Raises:
        LanceError: The table cannot be read.
        TypeError: The column holds no texts, or an argument is of another type.
        ValueError: An argument is missing, or makes no sense.
        ImportError: The index holds stems of words, and snowballstemmer is not installed.
    """
    column, query = _required("lance_fts", arguments, "column", "query")
    search = dataset.text_search(
        query,
        [column] if isinstance(column, str) else column,
        _number(arguments, "k", _K),
        filter=arguments.get("filter"),
        prefilter=_prefilter("lance_fts", arguments),
    )
    return _answer(search, arguments)


def best_of_both(dataset: LanceDataset, arguments: Arguments) -> pa.Table:
    """Answer `lance_hybrid_search`; the defaults are those of DuckDB's extension `lance`.

    Args:
        dataset: The version of the table.
        arguments: What the function was called with.

    Raises:
        LanceError: The table cannot be read.
        TypeError: A column holds no vectors or no texts, or an argument is of another type.
        ValueError: An argument is missing, does not fit the column, or makes no sense.
        ImportError: The index holds stems of words, and snowballstemmer is not installed.
    """
    function = "lance_hybrid_search"
    names = ("vector_column", "vector", "text_column", "query")
    vector_column, vector, text_column, query = _required(function, arguments, *names)
    search = dataset.hybrid_search(
        vector_column,
        vector,
        query,
        _number(arguments, "k", _K),
        text_columns=[text_column] if isinstance(text_column, str) else text_column,
        alpha=_number(arguments, "alpha", _ALPHA),
        oversample_factor=_number(arguments, "oversample_factor", _OVERSAMPLE_FACTOR),
        metric=arguments.get("metric"),
        nprobes=_nprobes(function, arguments),
        refine_factor=arguments.get("refine_factor"),
        filter=arguments.get("filter"),
        prefilter=_prefilter(function, arguments),
    )
    return _answer(search, arguments)


def _answer(search: VectorSearch | TextSearch | HybridSearch, arguments: Arguments) -> pa.Table:
    """Return what a search finds, or how it does, a line in each row."""
    if arguments.get("explain"):
        return as_lines(search.explain())
    return readable_table(search.to_table())


def as_lines(text: str) -> pa.Table:
    """Return how rows are found, a line in each row of the column `explain`."""
    return pa.table({"explain": text.split("\n")})


def _required(function: str, arguments: Arguments, *names: str) -> list[Any]:
    """Return arguments that a call must have.

    Raises:
        ValueError: One is missing.
    """
    values = [arguments.get(name) for name in names]
    missing = [name for name, value in zip(names, values, strict=True) if value is None]
    if missing:
        raise ValueError(f"{function}: the argument {missing[0]} was expected, not NULL")
    return values


def _number(arguments: Arguments, name: str, default: float) -> Any:
    value = arguments.get(name)
    return default if value is None else value


def _nprobes(function: str, arguments: Arguments) -> Any:
    """Return the partitions of an index that are looked at.

    Raises:
        ValueError: They are given by both names.
    """
    nprobes, nprobs = arguments.get("nprobes"), arguments.get("nprobs")
    if nprobes is not None and nprobs is not None:
        raise ValueError(f"{function}: nprobs is another name of nprobes; leave one out")
    return nprobs if nprobes is None else nprobes


def _prefilter(function: str, arguments: Arguments) -> bool:
    """Whether the rows that `filter` keeps are searched, rather than filtered when found.

    Raises:
        ValueError: There is nothing to filter with.
    """
    prefilter = arguments.get("prefilter")
    if prefilter and arguments.get("filter") is None:
        raise ValueError(
            f"{function}: prefilter := true is for the argument filter, as in filter := "
            "'price > 3'; a WHERE around the call filters the rows that were found"
        )
    return prefilter is not False
