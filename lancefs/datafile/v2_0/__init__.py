"""Data files of format 2.0, whose footers contain the version 0.3.

Docs: `encodings_v2_0.proto` in Lance's repository. Unlike in later formats, every field owns a
column, except the members of packed structs: the column of a list holds offsets into the column of
its items, the column of a struct only counts rows. One `ArrayEncoding` message describes a page: a
tree whose leaves are buffers. The encodings of validity are part of this tree. Structs themselves
are never null.
"""
