"""Damaged tables: bytes flipped, cut and put in, in every kind of file and region.

`regions` says what lies where in a file, `mutations` damages a region, `reading` reads the table
and judges what comes of it, and `worker` does that many times, in a process of its own.
"""
