"""Answering filters from the indices of a table: which rows may pass."""
