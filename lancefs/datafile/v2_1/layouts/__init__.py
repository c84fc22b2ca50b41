"""Layouts of the pages of data files 2.1 and later: one layout a file.

`page_layouts.open_page` finds the layout of a page. A layout reads rows as a `DecodedPage` (values
and levels). It does no I/O itself, but asks for byte ranges (`storage.Reads`).
"""
