"""The messages of the batches of a file, encoded one by one, or many at once for who reads many."""

from __future__ import annotations

from lancefs.storage import Bytes
from lancefs.views.arrow.arrow_layout import Layout
from lancefs.views.arrow.known_measures import KnownMeasures

# Bytes of the messages of a block of batches, which are encoded at once.
_BLOCK_BYTES = 64 * 1024
# Messages of a block that are encoded one by one before the whole block is.
_ALONE = 3
# Blocks that are cached: threads of a reader ask for messages that lie apart.
_BLOCKS = 4


class BatchMessages:
    """The messages of the batches of a file, for one reader.

    Args:
        layout: The layout of the file.
        measures: Its measures.
    """

    def __init__(self, layout: Layout, measures: KnownMeasures) -> None:
        self._layout = layout
        self._measures = measures
        self._together = max(1, _BLOCK_BYTES // layout.message)
        self._blocks: dict[int, Bytes] = {}
        # The block of the last message that was encoded alone, and how many of it were.
        self._alone = -1, 0

    def message(self, batch: int) -> bytes | Bytes:
        """Return the message of a batch, whose null counts are known.

        Args:
            batch: Number of the batch.
        """
        block, place = divmod(batch, self._together)
        messages = self._blocks.get(block)
        last, count = self._alone
        if messages is None and block == last and count >= _ALONE:
            self._alone = block, 0
            messages = self._encode_block(block)
        if messages is not None:
            message: Bytes = messages[place]
            return message
        self._alone = block, count + 1 if block == last else 1
        return self._layout.batch_message(batch, self._measures.null_counts([batch])[0])

    def _encode_block(self, block: int) -> Bytes | None:
        """Encode and cache the messages of a block; None if null counts of it are unknown."""
        first = block * self._together
        batches = range(first, min(first + self._together, len(self._layout.rows)))
        counts = self._measures.null_counts(batches)
        if (counts < 0).any():
            return None
        if len(self._blocks) == _BLOCKS:
            self._blocks = {}
        messages = self._blocks[block] = self._layout.batch_messages(batches, counts)
        return messages
