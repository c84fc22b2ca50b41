"""Where the rows come from that DuckDB reads: tables, or what statements use of them."""
