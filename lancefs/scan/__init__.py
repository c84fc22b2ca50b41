"""Scans: filters, how many rows are read together, and reading them in order."""
