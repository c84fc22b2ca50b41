"""The full-text indices of a version: which there are over a column, and their open segments.

Format page: full-text index (`docs/src/format/index/scalar/fts.md`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lancefs.errors import LanceError, UnsupportedFeature, locating
from lancefs.index.column_indices import ColumnIndices, index_section_of
from lancefs.index.files import IndexReader
from lancefs.index.open_segments import cost_of, identity_of, index_file
from lancefs.index.segments import TEXTS_HOLD_ROW_IDS, ColumnIndex, IndexSegment
from lancefs.index.text.analyzers import AnalyzerParams, params_of_json
from lancefs.index.text.listed_postings import (
    DOCUMENTS,
    LISTED_FILES,
    POSTINGS,
    TOKENS,
    listed_params,
    listed_partition,
)
from lancefs.index.text.partitions import (
    BlockPostings,
    TextPartition,
    read_documents,
    read_tokens,
)
from lancefs.index.text.postings import (
    BLOCK_SIZES,
    FIXED,
    ROUNDING_BLOCK_SIZE,
    TAIL_CODECS,
    PostingFormat,
)
from lancefs.printable import get_logger
from lancefs.storage import SMALL, File, holding_tails
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import TableFiles
from lancefs.table.indices import Index
from lancefs.table.open_version import OpenVersion
from lancefs.table.per_version import per_version

logger = get_logger(__name__)

TEXT_KIND = "Inverted"
METADATA = "metadata.lance"
# Ends of the names of files with documents and tokens.
_READ_WHOLE = ("docs.lance", "tokens.lance")

# Bytes of documents and token maps that a process keeps.
_BUDGET = 128 * 1024 * 1024
_MAX_PARTITIONS = 64 * 1024


@dataclass(frozen=True)
class OpenText:
    """A segment, open.

    Attributes:
        params: How texts become tokens.
        partitions: Its partitions.
        may_name_old_texts: Whether rows may have several documents: old texts of rows that were
            updated stay in an index whose segments were merged, where rows keep their ids.
        is_doubtful: Whether its postings must be compared with texts: releases up to 0.22 mixed up
            those of different tokens where a compaction moved rows, and no file tells the release.
    """

    params: AnalyzerParams
    partitions: Sequence[TextPartition]
    may_name_old_texts: bool
    is_doubtful: bool

    @property
    def has_positions(self) -> bool:
        """Whether it has the positions of tokens in documents."""
        return all(one.has_positions for one in self.partitions)

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return sum(one.cost for one in self.partitions)


_OPENED: BudgetCache[tuple[object, ...], tuple[OpenText, list[File]]] = BudgetCache(_BUDGET)


class TextIndices(ColumnIndices):
    """The full-text indices of one version."""

    def open(self, segment: IndexSegment) -> OpenText:
        """Return a segment, open.

        Raises:
            LanceError: It cannot be read.
        """
        broken = self.broken(segment)
        if broken is not None:
            raise broken
        found = _open(segment, self._files)
        if segment.holds_row_ids and found.may_name_old_texts:
            raise UnsupportedFeature("it may have old texts of rows, and does not tell which ones")
        return found

    def try_to_open(self, segment: IndexSegment) -> OpenText | LanceError:
        """Return a segment, open; or why it is used no more."""
        try:
            return self.open(segment)
        except LanceError as error:
            self.give_up(segment, error)
            return error

    def params(self, index: ColumnIndex) -> AnalyzerParams | None:
        """Return how an index makes tokens of texts; None where none of its segments tells."""
        for segment in index.segments:
            try:
                found = _files(segment, self._files)
                if METADATA in found:
                    return _params(segment, IndexReader(found[METADATA]))
                return _listed_params(segment, IndexReader(found[TOKENS]))
            except LanceError as error:
                self.give_up(segment, error)
        return None


def _files(segment: IndexSegment, files: TableFiles) -> dict[str, File]:
    """Return the files of a segment by name."""
    names = [file.path for file in segment.index.files]
    if METADATA not in names and TOKENS not in names:
        raise UnsupportedFeature(f"a full-text index without {METADATA} or {TOKENS}")
    return {name: index_file(segment, name, files) for name in sorted(names)}


def _params(segment: IndexSegment, metadata: IndexReader) -> AnalyzerParams:
    with locating(metadata.url, f"index {segment.index.name}"):
        return params_of_json(metadata.metadata.get("params", b"{}"))


def _listed_params(segment: IndexSegment, tokens: IndexReader) -> AnalyzerParams:
    with locating(tokens.url, f"index {segment.index.name}"):
        return listed_params(tokens)


def _open(segment: IndexSegment, files: TableFiles) -> OpenText:
    found = _files(segment, files)
    key = tuple(part for file in found.values() for part in identity_of(file))

    def opened() -> tuple[OpenText, list[File]]:
        for name, file in found.items():  # all but postings are read as a whole
            if name.endswith(_READ_WHOLE) and not file.store.is_local and file.size <= SMALL:
                file.tail = file.size
        with holding_tails(list(found.values())):
            open_text = _open_blocks if METADATA in found else _open_listed
            return open_text(segment, found, files, key), list(found.values())

    return _OPENED.get(key, opened, cost_of)[0]


def _open_blocks(
    segment: IndexSegment, found: dict[str, File], files: TableFiles, key: object
) -> OpenText:
    metadata = IndexReader(found[METADATA], files.max_memory)
    params = _params(segment, metadata)
    partitions = [
        _partition(segment, found, number, metadata, files, key)
        for number in _partition_numbers(metadata)
    ]
    numbers = np.concatenate([np.empty(0, np.uint64), *(p.row_numbers for p in partitions)])
    numbers.sort()
    is_twice = bool((numbers[1:] == numbers[:-1]).any())
    return OpenText(params, partitions, is_twice, False)


def _open_listed(
    segment: IndexSegment, found: dict[str, File], files: TableFiles, key: object
) -> OpenText:
    """Open a segment of a release up to 0.27."""
    own = {name: found.get(name) or index_file(segment, name, files) for name in LISTED_FILES}
    readers = {name: IndexReader(file, files.max_memory) for name, file in own.items()}
    params = _listed_params(segment, readers[TOKENS])
    partition = listed_partition(readers[DOCUMENTS], readers[TOKENS], readers[POSTINGS], key)
    return OpenText(params, [partition], True, True)


def _partition(
    segment: IndexSegment,
    known: dict[str, File],
    number: int,
    metadata: IndexReader,
    files: TableFiles,
    key: object,
) -> TextPartition:
    names = [f"part_{number}_{part}.lance" for part in ("docs", "tokens", "invert")]
    own = [known.get(name) or index_file(segment, name, files) for name in names]
    documents, tokens, postings = (IndexReader(file, files.max_memory) for file in own)
    rows, lengths = read_documents(documents)
    token_format = metadata.metadata.get("token_set_format", b"arrow").decode("utf-8", "replace")
    format = _posting_format(metadata)
    blocks = BlockPostings(postings, format, len(rows))
    token_map = read_tokens(tokens, token_format)
    rounds_lengths = format.block_size == ROUNDING_BLOCK_SIZE
    return TextPartition(rows, lengths, token_map, blocks, (key, number), rounds_lengths)


def _partition_numbers(metadata: IndexReader) -> list[int]:
    try:
        found = json.loads(metadata.metadata.get("partitions", b""))
    except (ValueError, RecursionError) as error:
        raise metadata.damage(f"its partitions are no JSON: {error}") from error
    is_list = isinstance(found, list) and len(found) <= _MAX_PARTITIONS
    if not is_list or not all(type(one) is int and one >= 0 for one in found):
        raise metadata.damage("its partitions are no list of numbers")
    if len(set(found)) != len(found):
        raise metadata.damage("it names a partition twice")
    return list(found)


def _posting_format(metadata: IndexReader) -> PostingFormat:
    version = metadata.number("format_version", 1)
    if version not in (1, 2, 3):
        raise metadata.unsupported(f"a full-text index of format {version}")
    size = metadata.number("posting_block_size", 128)
    codec = metadata.metadata.get("posting_tail_codec", FIXED.encode()).decode("utf-8", "replace")
    if size not in BLOCK_SIZES or codec not in TAIL_CODECS:
        raise metadata.unsupported(f"blocks of {size} documents, the last one as {codec[:40]!r}")
    return PostingFormat(size, codec)


@per_version
def text_indices_of(version: OpenVersion) -> TextIndices | None:
    """Return the full-text indices of a version; None if there are none.

    Args:
        version: The version.

    Raises:
        LanceError: The index section cannot be read.
    """
    section = index_section_of(version)
    if section is None:
        return None
    listed, coverage = section
    indices = list(coverage.text_indices(listed))
    for index in filter(_is_text, listed):
        if (index.index_version or 0) not in TEXTS_HOLD_ROW_IDS:
            _warn(index.name, UnsupportedFeature(f"its version is {index.index_version}"))
    return TextIndices(version.files, coverage, indices, _warn) if indices else None


def _is_text(index: Index) -> bool:
    return index.type == TEXT_KIND


def _warn(name: str, error: LanceError) -> None:
    logger.warning("index %s is not used, its rows are read one by one: %s", name, error)
