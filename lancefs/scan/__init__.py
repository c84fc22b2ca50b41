"""Scans: evaluating filters, choosing morsel lengths, and decoding columns in order."""
