"""Searches: the rows that answer a query best, in the order of how well they do."""
