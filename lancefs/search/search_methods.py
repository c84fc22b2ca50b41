"""The methods of a dataset that search: by vectors, by texts, and by both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import pyarrow as pa

from lancefs.arguments import check_whole, list_columns
from lancefs.datafile.fields import Field
from lancefs.scan.projection import Columns
from lancefs.scan.scanner import Filter
from lancefs.table.open_version import OpenVersion

if TYPE_CHECKING:
    from lancefs.search.found_rows import WantedRows
    from lancefs.search.hybrid_search import HybridSearch
    from lancefs.search.text_query import TextQuery
    from lancefs.search.text_search import TextSearch
    from lancefs.search.vector_query import DistanceRange, QueryVectors
    from lancefs.search.vector_search import VectorSearch


class _SearchOptions(TypedDict, total=False):
    """The options of all searches."""

    filter: Filter | None
    prefilter: bool
    use_index: bool
    with_row_id: bool
    with_row_address: bool


class VectorSearchOptions(_SearchOptions, total=False):
    """The options of `nearest`, as `SearchMethods.vector_search` describes them."""

    nprobes: int | None
    refine_factor: int | None
    distance_range: DistanceRange | None
    columns: Columns | None


class TextSearchOptions(_SearchOptions, total=False):
    """The options of `search`, as `SearchMethods.text_search` describes them."""

    select: Columns | None


class SearchMethods:
    """The search methods of datasets."""

    _version: OpenVersion
    _columns: Sequence[Field]
    _filters: tuple[Filter, ...]
    _use_index: bool

    def nearest(
        self,
        column: str,
        q: QueryVectors,
        k: int = 10,
        metric: str | None = None,
        **options: Unpack[VectorSearchOptions],
    ) -> pa.Table:
        """Find the rows whose vectors are nearest to a query; arguments as for `vector_search`.

        Returns:
            The requested columns and `_distance`, nearest rows first; rows with equal distances are
            in the order of their row ids. For several query vectors, the results are concatenated,
            and the first column, `query_index`, is the position of the query vector.

        Raises:
            LanceError: The table cannot be read.
            TypeError: The column holds no vectors, or an argument is of another type.
            ValueError: An argument does not fit the column, or makes no sense.
        """
        return self.vector_search(column, q, k, metric, **options).to_table()

    def vector_search(
        self,
        column: str,
        q: QueryVectors,
        k: int = 10,
        metric: str | None = None,
        *,
        nprobes: int | None = None,
        refine_factor: int | None = None,
        filter: Filter | None = None,
        prefilter: bool = True,
        distance_range: DistanceRange | None = None,
        use_index: bool = True,
        columns: Columns | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> VectorSearch:
        """Return a search for the rows with the nearest vectors; nothing is read yet.

        Rows without a vector are never found, nor are those without a defined distance: vectors
        with NaN and, for `cosine`, vectors of length 0.

        Args:
            column: The column of vectors, or the path of a struct member such as `item.vector`: a
                fixed-size list of halffloat, float, double or uint8, or a list of these.
            q: The query vector, or several of them as the rows of a matrix. A missing value
                counts as 0. Where rows have lists of vectors, all query vectors are one query: the
                distance of a row is the sum, over these, of the distance of its nearest vector.
            k: Number of rows for each query vector.
            metric: `l2` (the squared Euclidean distance, the default), `cosine`, `dot` (1 minus the
                dot product), or `hamming` (number of differing bits, the default for uint8).
            nprobes: Number of index partitions to search; more take longer and find more of the
                nearest rows.
            refine_factor: Compute exact distances for this many times `k` rows that an index finds.
            filter: Find only rows for which it is true; see `scanner`.
            prefilter: Whether the filter is applied before the search, so that it finds `k` rows if
                so many pass; otherwise it is applied to the `k` nearest rows.
            distance_range: Lower bound (inclusive) and upper bound (exclusive) of the distance;
                None for no bound.
            use_index: Whether indices of the table may be used.
            columns: Names of columns, also `_distance`, or a dict of names and expressions; all
                columns by default. `_distance` is last where it is not named.
            with_row_id: Whether to add the column `_rowid`.
            with_row_address: Whether to add the column `_rowaddr`.

        Raises:
            ColumnNotFound: A column is not in the table.
            InvalidFilter: The text of the filter cannot be parsed.
            TypeError: The column holds no vectors, or an argument is of another type.
            ValueError: An argument does not fit the column, or makes no sense.
        """
        from lancefs.search.vector_query import vector_query
        from lancefs.search.vector_search import VectorSearch

        field = self._version.column(column)
        rows = self._wanted(columns, filter, prefilter, use_index, with_row_id, with_row_address)
        query = vector_query(field, q, k, metric, distance_range, nprobes, refine_factor)
        return VectorSearch(self._version, query, rows)

    def search(
        self,
        query: str | TextQuery,
        columns: Sequence[str] | None = None,
        k: int | None = 10,
        **options: Unpack[TextSearchOptions],
    ) -> pa.Table:
        """Find the rows whose texts match a query best; arguments as for `text_search`.

        Returns:
            The requested columns and `_score`, best rows first; rows with equal scores are in the
            order of their row ids.

        Raises:
            LanceError: The table cannot be read.
            TypeError: A column holds no texts, or an argument is of another type.
            ValueError: An argument makes no sense, or no column has a full-text index.
            ImportError: The index holds stems of words, and snowballstemmer is not installed.
        """
        return self.text_search(query, columns, k, **options).to_table()

    def text_search(
        self,
        query: str | TextQuery,
        columns: Sequence[str] | None = None,
        k: int | None = 10,
        *,
        filter: Filter | None = None,
        prefilter: bool = True,
        use_index: bool = True,
        select: Columns | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> TextSearch:
        """Return a search for the rows whose texts match a query best; nothing is read yet.

        Args:
            query: Words, at least one of which must occur, or a phrase in double quotes; or a query
                object: `lancefs.MatchQuery`, `PhraseQuery`, `MultiMatchQuery`, `BoostQuery`,
                `BooleanQuery`.
            columns: The columns to search in, or paths of struct members, if the query names none;
                by default all with a full-text index. The best score of a row counts.
            k: Number of rows; None for all that match.
            filter: Find only rows for which it is true; see `scanner`.
            prefilter: Whether the filter is applied before the search, so that it finds `k` rows if
                so many match; otherwise it is applied to the `k` best rows.
            use_index: Whether indices of the table may be used; otherwise all texts are read.
            select: Names of columns that come out, also `_score`, or a dict of names and
                expressions; all columns by default. `_score` is last where it is not named.
            with_row_id: Whether to add the column `_rowid`.
            with_row_address: Whether to add the column `_rowaddr`.

        Raises:
            ColumnNotFound: A column is not in the table.
            InvalidFilter: The text of the filter cannot be parsed.
            TypeError: A column holds no texts, or an argument is of another type.
            ValueError: An argument makes no sense, or no column has a full-text index.
        """
        from lancefs.search.text_search import TextSearch

        rows = self._wanted(select, filter, prefilter, use_index, with_row_id, with_row_address)
        return TextSearch(self._version, query, columns, k, rows)

    def hybrid_search(
        self,
        column: str,
        q: QueryVectors,
        query: str | TextQuery,
        k: int = 10,
        *,
        text_columns: Sequence[str] | None = None,
        alpha: float | None = None,
        oversample_factor: int = 1,
        metric: str | None = None,
        **options: Unpack[VectorSearchOptions],
    ) -> HybridSearch:
        """Return a search for the rows that are best by vectors and texts; nothing is read yet.

        The results of a vector search and a text search are fused. Without `alpha`, the score of a
        row, `_relevance_score`, is the sum of 1 / (60 + rank) over the searches that found it
        (reciprocal rank fusion). With `alpha`, the score `_hybrid_score` is `alpha` times the
        closeness of the vector plus `1 - alpha` times the text score; both are scaled to the range
        0 to 1 over the rows that the search found, and 0 for rows that it did not find.

        Args:
            column: The column of vectors; see `vector_search`.
            q: The query vector; see `vector_search`.
            query: Words, or a query object; see `text_search`.
            k: Number of rows.
            text_columns: The columns to search for the words in: `columns` of `text_search`.
            alpha: Weight of the vector search, from 0 to 1; None to fuse by ranks.
            oversample_factor: Fuse this many times `k` rows of each search.
            metric: How vectors are compared; see `vector_search`.
            **options: As for `vector_search`; `filter`, `prefilter` and `use_index` apply to both
                searches. If `columns` does not name them, `_distance`, `_score` (each null if that
                search did not find the row) and the fused score are the last columns.

        Raises:
            ColumnNotFound: A column is not in the table.
            InvalidFilter: The text of the filter cannot be parsed.
            TypeError: A column holds no vectors or no texts, or an argument is of another type.
            ValueError: An argument does not fit the column, or makes no sense, or no column has a
                full-text index.
        """
        from lancefs.search.hybrid_search import HybridSearch

        check_whole(1, k=k, oversample_factor=oversample_factor)
        rows = self._wanted(
            options.pop("columns", None),
            options.get("filter"),
            options.get("prefilter", True),
            options.get("use_index", True),
            options.pop("with_row_id", False),
            options.pop("with_row_address", False),
        )
        most = k * oversample_factor
        vectors = self.vector_search(column, q, most, metric, **options)
        texts = self.text_search(
            query,
            text_columns,
            most,
            filter=rows.filter,
            prefilter=rows.prefilter,
            use_index=rows.use_index,
        )
        return HybridSearch(self._version, vectors, texts, k, alpha, rows)

    def _wanted(
        self,
        columns: Columns | None,
        filter: Filter | None,
        prefilter: bool,
        use_index: bool,
        with_row_id: bool,
        with_row_address: bool,
    ) -> WantedRows:
        """Return which rows a search may find, and which of their columns it returns."""
        from lancefs.search.found_rows import WantedRows, metadata_names

        return WantedRows(
            self._columns,
            self._filters,
            filter,
            prefilter,
            list_columns(columns),
            metadata_names(with_row_id, with_row_address),
            use_index and self._use_index,
        )
