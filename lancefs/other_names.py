"""Names that other libraries have for things: errors about them name what lancefs has instead.

They are the public names of pylance 14 that lancefs has not, and a few that users of pandas and
polars try first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from lancefs.arguments import similar_names

_WRITING = "lancefs only reads; write with pylance"
_WRITING_ELSEWHERE = (
    "lancefs only reads; write with pylance, which has write_dataset, merge_insert and optimize"
)
_INDICES = "indices() lists the indices"
_COMMIT = "open(url, version=7).transaction() is what committed version 7"
_BLOBS = 'take(…, blobs="bytes") reads blobs'
_TAKEN_CARE_OF = "lancefs has no such setting; leave it out"
_ANY_ORDER = "lancefs returns rows in the order of the table; leave it out"

# Attributes of datasets.
DATASET = {
    **dict.fromkeys(
        (
            *("add_bases", "add_columns", "alter_columns", "cleanup_old_versions", "commit"),
            *("create_branch", "create_index", "create_scalar_index", "deep_clone", "delete"),
            *("drop", "drop_columns", "drop_index", "insert", "merge", "merge_insert", "optimize"),
            *("replace_field_metadata", "replace_schema_metadata", "restore", "shallow_clone"),
            *("truncate_table", "update", "update_config", "update_metadata"),
        ),
        _WRITING,
    ),
    **dict.fromkeys(
        ("describe_indices", "has_index", "index_statistics", "list_indices"), _INDICES
    ),
    **dict.fromkeys(("get_transactions", "read_transaction"), _COMMIT),
    **dict.fromkeys(("read_blobs", "take_blobs"), _BLOBS),
    **dict.fromkeys(("schema_metadata", "metadata"), "schema.metadata has it"),
    **dict.fromkeys(("get_version", "version_refs"), "versions() and history() list the versions"),
    "base_paths": "manifest.base_paths has them",
    "checkout_latest": 'checkout("latest") returns the newest version as a dataset',
    "checkout_version": "checkout(2) returns version 2 as a dataset",
    "config": "manifest.config has it",
    "data_storage_version": "manifest.data_version has it",
    "delta": "changes(since) returns the rows that changed",
    # Dask asks datasets of pyarrow for it.
    "files": "get_fragments() has them as metadata.files; Dask takes list(dataset.get_fragments())",
    "fragment_ids": "[fragment.id for fragment in dataset.fragments] are the ids",
    "lance_schema": "manifest.fields has it",
    "slice": "to_table(offset=…, limit=…) reads a range of rows",
    "sql": "lancefs.sql(\"SELECT … FROM 't.lance'\") is SQL of DuckDB",
    "validate": "'lancefs verify t.lance' at a prompt reads and checks all pages",
    # pandas, polars, DuckDB's relations, pyarrow's tables and files, and Delta's tables
    **dict.fromkeys(
        ("append", "compact_files", "overwrite", "upsert", "vacuum", "write"), _WRITING_ELSEWHERE
    ),
    **dict.fromkeys(("columns", "column_names"), "schema.names has the names of the columns"),
    **dict.fromkeys(("iter_batches", "iter_rows", "scan"), "to_batches() iterates over the rows"),
    **dict.fromkeys(("group_by", "groupby"), "to_table(…).group_by(…) and lancefs.sql(…) group"),
    **dict.fromkeys(("order", "sort", "sort_values"), 'to_table(…).sort_by("column") sorts rows'),
    **dict.fromkeys(
        ("fetchall", "to_dict", "to_dicts", "to_pydict", "to_pylist"),
        "to_table().to_pylist() returns the rows as objects of Python",
    ),
    **dict.fromkeys(
        ("to_csv", "to_excel", "to_json"),
        "to_pandas() returns a frame, which has methods that write",
    ),
    "collect": "to_table(), to_pandas() and to_polars() read the rows",
    "dtypes": "schema.types has the types of the columns",
    "iloc": "take([0, 5]) reads rows by position",
    "info": "schema has the columns, and describe() profiles their values",
    "limit": "head(10) reads the first rows",
    "loc": "filter(…) keeps rows",
    "lazy": "polars.scan_pyarrow_dataset(dataset) is a lazy frame",
    "num_columns": "len(schema) is the number of columns",
    "num_rows": "count_rows() and len(dataset) count the rows",
    "query": "filter(…) keeps rows",
    "select": "to_table(columns=[…]) reads some columns",
    "to_arrow": "to_table() reads the rows into an Arrow table",
    "to_parquet": "'lancefs export t.lance t.parquet' at a prompt writes it",
    "where": "filter(…) keeps rows",
}
# Attributes of fragments.
FRAGMENT = {
    **dict.fromkeys(("delete", "merge", "merge_columns", "update_columns"), _WRITING),
    "data_files": "metadata.files has them",
    "deletion_file": "metadata.deletion_file has it",
    "num_deletions": "metadata.num_deleted has it",
    "physical_rows": "metadata.physical_rows has it",
}
# Attributes of scanners.
SCANNER = {
    **dict.fromkeys(("analyze_plan", "explain_plan"), "explain() says how the rows are found"),
    "to_pandas": "to_table().to_pandas() returns a frame",
    "to_polars": "polars.from_arrow(scanner.to_table()) is a frame",
}
# Attributes of the module.
MODULE = {
    **dict.fromkeys(
        ("connect", "load", "open_table", "read", "read_lance", "read_table", "scan_lance"),
        "lancefs.open(url) returns a table as a dataset, and lancefs.sql(query) runs SQL",
    ),
    "write_dataset": _WRITING,
    "torch": "dataset.shards(…) divides the rows for PyTorch",
}
# Arguments of `open`.
OPENING = {
    **dict.fromkeys(
        (
            *("base_store_params", "block_size", "commit_lock", "default_scan_options"),
            *("index_cache_size", "index_cache_size_bytes", "metadata_cache_size_bytes"),
            *("namespace_client", "read_params", "session", "table_id"),
        ),
        _TAKEN_CARE_OF,
    ),
    **dict.fromkeys(
        ("anon", "endpoint_url", "key", "profile", "secret", "token"),
        "storage_options={…} takes the options of the store",
    ),
    **dict.fromkeys(
        ("batch_size", "columns", "filter", "limit", "offset"),
        "methods that read take it, such as open(url).to_table(…)",
    ),
    "asof": "the argument is called as_of",
    "uri": "the argument is called url",
    "use_index": "pass it to the methods that read, or use dataset.without_indices()",
}
# Arguments of reading methods.
READING = {
    **dict.fromkeys(
        (
            *("batch_size_bytes", "fast_search", "io_buffer_size", "late_materialization"),
            *("strict_batch_size", "use_stats"),
        ),
        _TAKEN_CARE_OF,
    ),
    "blob_handling": 'blobs="bytes" reads the bytes of blobs',
    "dtype_backend": "to_table(…).to_pandas(types_mapper=pandas.ArrowDtype) keeps Arrow's types",
    "full_text_query": "dataset.search(…) searches texts",
    "include_deleted_rows": "lancefs reads no deleted rows",
    "lazy": "polars.scan_pyarrow_dataset(dataset) is a lazy frame",
    "nearest": "dataset.nearest(column, q, k) searches vectors",
    "order_by": 'dataset.to_table(…).sort_by("column") sorts rows',
    "prefilter": "dataset.nearest(…) and dataset.search(…) take it",
    "random_state": "the argument is called seed",
    "scan_in_order": _ANY_ORDER,
    "scan_stats_callback": "scanner.stats has them after the scan",
    "types_mapper": "to_table(…).to_pandas(types_mapper=…) takes it",
    **dict.fromkeys(("n", "n_rows", "nrows"), "the argument is called limit"),
    **dict.fromkeys(("select", "usecols"), "the argument is called columns"),
    **dict.fromkeys(("predicate", "query", "where"), "the argument is called filter"),
    "use_scalar_index": "the argument is called use_index",
}


class OtherNames:
    """A class whose errors about missing attributes and items say what there is in their place."""

    # What there is in place of an attribute, by its name.
    _MEANT: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:  # otherwise type checkers would take any attribute for one of these

        def __getattr__(self, name: str) -> Any:
            meant = self._meant(name)
            if meant is not None:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}: {meant}")
            # Raises again, also what a property raised.
            return super().__getattribute__(name)

        def __getitem__(self, key: object) -> NoReturn:
            raise TypeError(
                f"a {type(self).__name__} has no items: to_table() reads the rows, take([0, 5]) "
                "some by position, and to_batches() iterates over them"
            )

    def _meant(self, name: str) -> str | None:
        """Return what there is in place of an attribute; None where nothing is known."""
        return self._MEANT.get(name)


def refuse_argument(
    function: str, name: str, meant: Mapping[str, str], known: Collection[str]
) -> NoReturn:
    """Raise the error about an argument that a function does not take.

    Args:
        function: The function.
        name: The argument.
        meant: What there is in its place, by name.
        known: The arguments that the function takes.

    Raises:
        TypeError: Always.
    """
    near = similar_names(name, known, most=1)
    hint = meant.get(name) or (f"did you mean {near[0]}?" if near else None)
    message = f"{function}() got an unexpected keyword argument {name!r}"
    raise TypeError(f"{message}: {hint}" if hint else message)
