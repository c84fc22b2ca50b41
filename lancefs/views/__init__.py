"""The tree of files that shows a table, and the bytes of each file. From a path to its bytes:

1. `tree` (`folder` above tables) finds the node at a path; `locations` says to which version it
   belongs. File nodes are in `file_node` and `materialized_files`.
2. `open_tables` lists and opens the versions of a table, once each.
3. `file_node` chooses how to make the bytes, as a `view.View` or as a stream; `file_objects` are
   the file objects that read them. JSON files come from `documents`.
4. `arrow/lazy_file` answers byte ranges of an `.arrow` file. It needs a layout of the file first:
5. `arrow/shapes` says which buffers a type has, `arrow/measures` how long they are (what it finds
   is recorded and shared in `arrow/known_measures`), and
   `arrow/unified_dictionaries` which dictionaries the file has. `arrow/layout_cache` keeps these on
   disk for other processes.
6. `arrow/arrow_layout` computes where everything lies; `arrow/ipc_format` writes the messages.
7. `view_batches` reads columns of batches from a fragment; `arrow/bodies` encodes their buffers,
   `arrow/small_batches` those of many small batches at once.
8. `arrow/arrow_file` encodes whole files that cannot be laid out in advance; `arrow/arrow_stream`
   encodes `.arrows` streams, whose batches `read_ahead` reads in order.

`read_only` is the base of `LanceFileSystem` (in `lancefs.filesystem`), which shows all of this.
"""
