"""Data files of format 0.1, which Lance wrote until 2024.

Rows come in batches. Of each batch every field has one page, except structs, whose rows are those
of their children; a table of pages, found by field id, says where. Nothing but an empty string of
a nullable field tells that a value is missing.
"""
