"""The methods of a dataset that search: by vectors, by texts, and by both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.scan.scanner import Columns, Filter
from lancefs.table.open_version import OpenVersion

if TYPE_CHECKING:
    from lancefs.search.found_rows import WantedRows
    from lancefs.search.hybrid_search import HybridSearch
    from lancefs.search.text_query import TextQuery
    from lancefs.search.text_search import TextSearch
    from lancefs.search.vector_query import DistanceRange, QueryVectors
    from lancefs.search.vector_search import VectorSearch


class _SearchOptions(TypedDict, total=False):
    """The arguments that all searches have."""

    filter: Filter | None
    prefilter: bool
    use_index: bool
    with_row_id: bool
    with_row_address: bool


class VectorSearchOptions(_SearchOptions, total=False):
    """The further arguments of `nearest`; `SearchMethods.vector_search` says what each does."""

    nprobes: int | None
    refine_factor: int | None
    distance_range: DistanceRange | None
    columns: Columns | None


class TextSearchOptions(_SearchOptions, total=False):
    """The further arguments of `search`; `SearchMethods.text_search` says what each does."""

    columns: Columns | None


class SearchMethods:
    """The methods that search, for a dataset."""

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
            The columns that are wanted, and `_distance`: the nearest row first, and of rows with
            the same distance the one with the lower row id. For several query vectors the rows of
            each follow each other, and the first column, `query_index`, tells which it is.

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
        """Say which rows to find by their vectors; nothing is read yet.

        Rows without a vector are never found, nor those whose distance is not defined: a vector
        with NaN, or by cosine one without length.

        Args:
            column: The column of vectors, or the path of a member of a struct, `item.vector`: a
                fixed-size list of halffloat, float, double or uint8, or a list of these.
            q: The query vector, or several of them as the rows of a matrix. A missing value
                counts as 0. Where rows have lists of vectors, all query vectors are one query:
                the distance of a row is the sum, over these, of that of its nearest vector.
            k: How many rows, for each query vector.
            metric: `l2` (the squared Euclidean distance, the default), `cosine`, `dot` (1 less the
                product), or `hamming` (bits that differ, the default for uint8).
            nprobes: Partitions of an index that are looked at: more take longer and find better.
            refine_factor: So many times `k` rows that an index finds are compared exactly.
            filter: Rows that are wanted; see `scanner`.
            prefilter: Whether the nearest of the wanted rows are found, which are `k` where there
                are so many; otherwise the wanted ones of the nearest rows.
            distance_range: The least distance, and one that all are below; None for no bound.
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
        text_columns: Sequence[str] | None = None,
        k: int | None = 10,
        **options: Unpack[TextSearchOptions],
    ) -> pa.Table:
        """Find the rows whose texts fit best to a query; arguments as for `text_search`.

        Returns:
            The columns that are wanted, and `_score`: the best row first, and of rows with the same
            score the one with the lower row id.

        Raises:
            LanceError: The table cannot be read.
            TypeError: A column holds no texts, or an argument is of another type.
            ValueError: An argument makes no sense, or no column has a full-text index.
            ImportError: The index holds stems of words, and snowballstemmer is not installed.
        """
        return self.text_search(query, text_columns, k, **options).to_table()

    def text_search(
        self,
        query: str | TextQuery,
        text_columns: Sequence[str] | None = None,
        k: int | None = 10,
        *,
        filter: Filter | None = None,
        prefilter: bool = True,
        use_index: bool = True,
        columns: Columns | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> TextSearch:
        """Say which rows to find by their texts; nothing is read yet.

        Args:
            query: Words, of which a text has at least one; or a query: `lancefs.MatchQuery`,
                `PhraseQuery`, `MultiMatchQuery`, `BoostQuery`, `BooleanQuery`.
            text_columns: Where to search, if the query does not say it: columns, or paths of
                members of structs; by default all with a full-text index. Of several the best score
                counts.
            k: How many rows; None for all that are found.
            filter: Rows that are wanted; see `scanner`.
            prefilter: Whether the best of the wanted rows are found, which are `k` where so many
                have the words; otherwise the wanted ones of the best rows.
            use_index: Whether indices of the table may be used; otherwise all texts are read.
            columns: Names of columns, also `_score`, or a dict of names and expressions; all
                columns by default. `_score` is last where it is not named.
            with_row_id: Whether to add the column `_rowid`.
            with_row_address: Whether to add the column `_rowaddr`.

        Raises:
            ColumnNotFound: A column is not in the table.
            InvalidFilter: The text of the filter cannot be parsed.
            TypeError: A column holds no texts, or an argument is of another type.
            ValueError: An argument makes no sense, or no column has a full-text index.
        """
        from lancefs.search.text_search import TextSearch

        rows = self._wanted(columns, filter, prefilter, use_index, with_row_id, with_row_address)
        return TextSearch(self._version, query, text_columns, k, rows)

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
        """Say which rows to find by their vectors and their texts; nothing is read yet.

        A vector search and a text search find rows, which are ranked by both. Without `alpha` a
        row has the sum of 1 / (60 + rank) over the searches that found it (reciprocal rank
        fusion), as `_relevance_score`. With `alpha` it has `alpha` times how near it is plus
        `1 - alpha` times its score, as `_hybrid_score`; both are scaled to 0 to 1 over the rows
        that the search found, and are 0 where it did not.

        Args:
            column: The column of vectors, and
            q: the query vector: see `vector_search`.
            query: Words, or a query: see `text_search`.
            k: How many rows.
            text_columns: Where to search for the words: see `text_search`.
            alpha: The weight of the vector search, from 0 to 1; None to fuse by ranks.
            oversample_factor: So many times `k` rows are taken of each search.
            metric: How vectors are compared: see `vector_search`.
            options: As for `vector_search`. `filter`, `prefilter` and `use_index` are for both
                searches. `_distance` and `_score`, null where a row was not found so, and the
                fused score are last among the columns, where they are not named.

        Raises:
            ColumnNotFound: A column is not in the table.
            InvalidFilter: The text of the filter cannot be parsed.
            TypeError: A column holds no vectors or no texts, or an argument is of another type.
            ValueError: An argument does not fit the column, or makes no sense, or no column has a
                full-text index.
        """
        from lancefs.search.hybrid_search import HybridSearch
        from lancefs.search.vector_query import check_counts

        check_counts(k=k, oversample_factor=oversample_factor)
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
        """Return which rows a search may find, and what is returned of them."""
        from lancefs.search.found_rows import WantedRows, metadata_names

        return WantedRows(
            self._columns,
            self._filters,
            filter,
            prefilter,
            columns,
            metadata_names(with_row_id, with_row_address),
            use_index and self._use_index,
        )
