"""Data files of format 2.0 (their footers say 0.3).

Docs: `encodings_v2_0.proto` in Lance's repository. Unlike in later formats, every field but the
members of packed structs owns a column: a list's holds the offsets of its items, a struct's only
says how many rows there are. A page is described by one `ArrayEncoding`, a tree whose leaves are
buffers: nulls are part of it. A struct's own nulls are not stored.

`reader` puts fields together from columns. `registry` finds the file of an encoding; each file has
one function, `read(encoding, page, ranges)`, that asks for the bytes of row ranges of a page and
gives `Slots`: blocks of values (`datafile.blocks`), and which of them are valid. Those of strings
have `read_lengths`, too, which gives lengths in place of the values: `array_outlines` calls it.
"""
