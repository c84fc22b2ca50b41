"""How values are compressed in data files 2.1 and later: one encoding a file.

`registry` finds the file of an encoding. A file has one or more of these functions, one for each
position that the encoding can stand in:

- `decode_chunks(encoding, buffers, counts)`: the chunks of a page, all at once;
- `decode_at(encoding, buffers, counts, wanted)`: some values of them; without it, all are decoded;
- `decode_blocks(encoding, buffer, counts)`: buffers that stand alone, such as a dictionary;
- `decode_sequence(encoding, buffers, count)`: numbers that describe structure (format 2.3);
- `decode_fixed(encoding, data, count)`: full-zip values of one width, one after the other;
- `decode_variable(encoding, values)`: full-zip values of many lengths;
- `value_lengths(encoding, buffers, counts)`: how long the values of chunks are, without them.

They take bytes and a description, give blocks (`datafile.blocks`), and do no I/O.
"""
