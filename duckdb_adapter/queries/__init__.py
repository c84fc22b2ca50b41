"""Static analysis of the text of a statement: which rows and columns of a table it uses.

Each module recognizes one kind of query, for which `sources` reads less than the whole table. Where
a wrong answer would change results, the analysis is a proof: the text is one SELECT of the table,
and calls only functions that the module lists, because a view, a subquery or a macro of the user
may read the table again. Other analyses hold only if DuckDB binds the table once. Syntax that a
module does not know counts as a use of all rows. See docs/duckdb-internals.md, "Rewrites".
"""
