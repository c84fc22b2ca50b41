"""Data files of format 0.1, which Lance wrote until 2024.

A file holds its rows in batches. Every field except structs has one page per batch; the members of
a struct hold its rows. A page table, indexed by field id, gives the position of each page. The
format stores no validity: an empty string in a nullable field is the only encoding of a null.
"""
