"""Searches: the rows that match a query best, ranked."""
