"""A version of a table as the bytes of files: Arrow files and streams, and JSON documents.

`open_tables` opens versions, `tree` says which files there are, `arrow` and `documents` make their
bytes. `lancefs.filesystem` shows them to fsspec.
"""
