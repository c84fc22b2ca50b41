"""Dictionary: pages of indices, plain; the values are in the file once, where its schema says.

The values are plain or var-binary themselves. What writers left of a missing row is an index:
mostly 0, which reads as the first value. Three kinds still tell that the row is missing: the index
−1, which pandas has below a null; any index of a dictionary without values; and one of an empty
string in a nullable field, as in var-binary.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.legacy import plain, var_binary
from lancefs.datafile.legacy.column import Column
from lancefs.datafile.legacy.page_slots import Pages, Pieces
from lancefs.datafile.logical_types import is_variable_width
from lancefs.errors import CorruptFile
from lancefs.storage import Steps, together


def read(column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Read pieces of a dictionary field."""
    if not pa.types.is_dictionary(column.data_type):
        raise CorruptFile(f"a dictionary where {column.data_type} was expected")
    index_column = replace(column, data_type=column.data_type.index_type)
    steps = [plain.read(index_column, pieces), _values(column)]
    indices, values = yield from together(steps)
    where = indices.to_numpy().astype(np.int64)
    missing = where == -1 if len(values) else np.ones(len(where), np.bool_)
    wrong = (where < 0) | (where >= len(values))
    if np.any(wrong & ~missing):
        raise CorruptFile(
            f"index {where[wrong & ~missing][0]} of a dictionary of {len(values)} values; writers "
            "of 0.1 files lost all dictionaries of a column but the first"
        )
    if len(values) and column.nullable and is_variable_width(values.type):
        empty = pc.equal(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        missing |= np.append(empty, False)[where]  # −1 finds what was appended
    if missing.any():
        indices = pa.array(np.where(missing, 0, where), mask=missing).cast(indices.type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=column.data_type.ordered)


def _values(column: Column) -> Steps[pa.Array]:
    """Read the values of the dictionary, unless they were."""
    stored = column.dictionary
    if stored is None:
        raise CorruptFile("a dictionary field whose values are not in the file")
    if stored.values is None:
        offset, length = stored.location.offset, stored.location.length
        limit = column.pages.limit
        if not (0 <= offset <= limit and 0 <= length <= limit):
            raise CorruptFile(f"a dictionary of {length} values at byte {offset}, beyond the file")
        pages = Pages(np.array([offset]), np.array([length]), limit)
        values = Column(column.data_type.value_type, False, pages)
        encoding = var_binary if is_variable_width(values.data_type) else plain
        whole = Pieces(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([length]))
        stored.values = yield from encoding.read(values, whole)
    return stored.values
