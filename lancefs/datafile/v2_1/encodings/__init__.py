"""The compressive encodings of data files 2.1 and later: one encoding a file.

`registry` finds the file of an encoding. A file has one or more of these functions, one for each
position that the encoding can have in a page:

- `decode_chunks(encoding, buffers, counts)` decodes the chunks of a page, all at once;
- `decode_at(encoding, buffers, counts, wanted)` decodes some values of chunks; an encoding without
  it decodes all values;
- `decode_blocks(encoding, buffer, counts)` decodes buffers that stand alone, such as a dictionary;
- `decode_sequence(encoding, data, count)` decodes numbers that describe structure (format 2.3);
- `has_payload(encoding)` tells whether such a sequence has a buffer;
- `decode_fixed(encoding, data, count)` decodes consecutive full-zip values of one width;
- `decode_variable(encoding, values)` decodes full-zip values of variable width;
- `most_bytes(encoding, counts)` gives the most bytes that the first buffer of chunks may have;
- `value_lengths(encoding, buffers, counts)` gives the lengths of the values of chunks, without the
  values.

The functions take bytes and a description, return blocks (`datafile.blocks`), and do no I/O.
"""
