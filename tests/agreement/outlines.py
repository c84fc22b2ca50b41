"""What outlines tell of a version is held to what its values tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from outlining import assert_tells

import lancefs
from lancefs.datafile.fields import Field
from lancefs.datafile.outlines import outline_of
from lancefs.table.fragment_reader import FragmentReader
from lancefs.views.view_batches import batches_of, read_together


def assert_outlines_tell(uri: str, version: int, rng: np.random.Generator) -> int:
    """Assert that outlines measure as values do, of all columns in all fragments.

    Args:
        uri: The table.
        version: The version.
        rng: Chooses rows.

    Returns:
        How many arrays were compared.
    """
    dataset = lancefs.open(uri, version=version)
    compared = 0
    for field in dataset.manifest.fields:
        outline = outline_of(field)
        for reader in dataset.opened.readers if outline is not None else ():
            for told, values in _read(reader, outline, field, rng):
                assert_tells(told, values)
                compared += 1
    return compared


def _read(
    reader: FragmentReader, outline: Field, field: Field, rng: np.random.Generator
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Read batches without deleted rows, as views do; and some ranges of all rows."""
    for batch in batches_of([reader]):
        yield read_together([batch], [outline])[0][0], read_together([batch], [field])[0][0]
    ranges = _ranges(reader.physical_rows, rng)
    yield reader.read([outline], ranges)[0], reader.read([field], ranges)[0]


def _ranges(rows: int, rng: np.random.Generator) -> Sequence[tuple[int, int]]:
    borders = np.unique(rng.integers(0, rows + 1, 8)).tolist()
    return list(zip(borders[::2], borders[1::2], strict=False))
