"""A page of a data file 2.0, and what reading some of its rows gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lancefs.datafile.blocks import Block, Constant, FixedWidth, Ints, Mask
from lancefs.datafile.buffers import Array, dtype_of
from lancefs.datafile.row_ranges import count_rows as count_rows
from lancefs.datafile.row_ranges import scaled as scaled
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import ByteRange, Bytes


@dataclass(frozen=True, slots=True)
class Slots:
    """Values, and which of them are not null.

    Attributes:
        values: One a slot; what stands in a null slot means nothing.
        valid: One a slot, or None where all are valid.
    """

    values: Block
    valid: Mask | None = None

    @property
    def is_all_null(self) -> bool:
        """Whether the description alone tells that no slot has a value."""
        return isinstance(self.values, Constant) and self.values.value is None


@dataclass(frozen=True, slots=True)
class ArrayPage:
    """One page: where its buffers are, and what is kept of it between reads.

    Attributes:
        encoding: How its array is encoded.
        buffers: By the kind of buffer that an encoding names: the page's own, those of its column,
            and those of its file.
        zero_based: Whether indices into a dictionary count from 0, as they do in a column of a
            dictionary type; elsewhere index 0 stands for null.
        decompressed: Whole buffers, by where they are in the file: a compressed one cannot be read
            in part.
        dictionaries: Items of dictionaries, by their description.
    """

    encoding: pb.ArrayEncoding
    buffers: tuple[tuple[ByteRange, ...], tuple[ByteRange, ...], tuple[ByteRange, ...]]
    zero_based: bool = False
    decompressed: dict[ByteRange, Bytes] = field(default_factory=dict)
    dictionaries: dict[bytes, Slots] = field(default_factory=dict)

    def locate(self, buffer: pb.Buffer) -> ByteRange:
        """Return where a buffer is in the file.

        Raises:
            CorruptFile: There is no such buffer.
            UnsupportedFeature: It is of a kind that is not known.
        """
        if buffer.buffer_type not in (pb.Buffer.page, pb.Buffer.column, pb.Buffer.file):
            raise UnsupportedFeature(f"buffers of kind {buffer.buffer_type}")
        kind = pb.Buffer.BufferType.Name(buffer.buffer_type)
        present = self.buffers[buffer.buffer_type]
        if buffer.buffer_index >= len(present):
            raise CorruptFile(
                f"buffer {buffer.buffer_index} of the {kind} is wanted, it has {len(present)}"
            )
        return present[buffer.buffer_index]


def unsigned(block: Block, what: str) -> Array:
    """Return values that must be integers, without a sign, as wide as they are stored.

    Args:
        block: The values.
        what: What they are, for messages.

    Raises:
        CorruptFile: They are not.
    """
    if not isinstance(block, FixedWidth) or block.bits not in (8, 16, 32, 64):
        raise CorruptFile(f"{what} are not integers")
    return block.values.view(dtype_of(block.bits // 8))


def integers(slots: Slots, what: str) -> Ints:
    """Return values that must be integers without nulls, from 0 on, in 64 bits.

    Args:
        slots: The values.
        what: What they are, for messages.

    Raises:
        CorruptFile: They are not.
    """
    stored = unsigned(slots.values, what)
    if slots.valid is not None and not slots.valid.all():
        raise CorruptFile(f"some of {what} are null")
    values = stored.view(np.int64) if stored.itemsize == 8 else stored.astype(np.int64)
    if len(values) and int(values.min()) < 0:
        raise CorruptFile(f"some of {what} are beyond 2⁶³")
    return values
