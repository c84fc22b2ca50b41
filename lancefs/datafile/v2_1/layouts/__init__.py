"""How a page of a data file 2.1 or later is laid out: one layout a file.

`page_layouts.open_page` finds the layout. A layout gives the rows that are asked for as a `Leaf`
(values and levels); it asks for byte ranges (`storage.Steps`) and does no I/O.
"""
