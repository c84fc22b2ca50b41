"""Data files of format 2.1 and later: leaf columns, page layouts, compressive encodings, levels."""
