"""Profiles: what the values of a table's columns are like, found in one pass over them.

`describing` reads and makes a `TableProfile` (`profiles`). Each column has a `ColumnPass`
(`column_pass`), which takes the values batch by batch, in the forms that `kinds` names. What is
kept of the values has a bounded size: counts of values while there are few, a sample of the
rows and sums (`accumulators`), and the least hashes (`distinct`).
"""
