"""lancefs against pylance, on random tables.

pylance writes a table and changes it (`tables`, `operations`), with columns of random types and
shapes (`columns`, `values`); then both read every version of it, in every way (`readers`).
"""
