"""The rows that DuckDB reads: those of tables, or those that a statement uses of them."""
