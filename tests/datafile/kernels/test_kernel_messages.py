"""What kernels tell of messages without protobuf is what protobuf tells of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import wire_messages
from drawing import Arguments
from footer_inputs import small_files
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_inputs import needs_library
from support import examples

from lancefs.datafile.kernels import find_data_files, find_pages
from lancefs.datafile.kernels.footers import FileColumn, FilePages
from lancefs.proto import container_pb2, table_pb2


@st.composite
def fragment_messages(draw: st.DrawFn) -> Arguments:
    held = draw(st.lists(wire_messages.fragments(), max_size=6))
    held = draw(st.sampled_from([held, held * 2]))  # several with the same files
    bounds = np.cumsum([0, *map(len, held)], dtype=np.int64)
    starts, ends = bounds[:-1].copy(), bounds[1:].copy()
    if len(ends) and not draw(st.integers(0, 9)):
        ends[-1] += draw(st.integers(-3, 3))
    return np.frombuffer(b"".join(held), np.uint8), starts, ends


def only_file(message: bytes) -> table_pb2.DataFile:
    (file,) = table_pb2.DataFragment.FromString(message).files
    return file


def kind_of(file: table_pb2.DataFile) -> tuple[Any, ...]:
    version = file.file_major_version, file.file_minor_version
    return list(file.fields), list(file.column_indices), version


@settings(max_examples=examples(1000))
@given(fragment_messages())
def test_data_files_are_those_that_protobuf_finds(arguments: Arguments) -> None:
    data, starts, ends = arguments
    messages = [data[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]
    found = find_data_files(data, starts, ends)
    for message, start, end, size, kind in zip(messages, *found, strict=True):
        if kind >= 0:
            file = only_file(message)
            assert data[start:end].tobytes() == file.path.encode()
            assert size == file.file_size_bytes
            assert kind_of(file) == kind_of(only_file(messages[kind]))


@needs_library
def test_fragments_of_one_data_file_are_told_apart_by_what_files_have() -> None:
    messages = []
    for fields in ([0, 1], [0, 1], [0, 300], [0, 1]):
        fragment = table_pb2.DataFragment(id=len(messages), physical_rows=7)
        fragment.files.add(path="a-1.lance", fields=fields, file_size_bytes=1 << 40)
        messages.append(fragment.SerializeToString())
    bounds = np.cumsum([0, *map(len, messages)], dtype=np.int64)
    data = np.frombuffer(b"".join(messages), np.uint8)
    found = find_data_files(data, bounds[:-1], bounds[1:])
    assert found.kinds.tolist() == [0, 0, 2, 3]
    assert set(found.sizes.tolist()) == {1 << 40}


def column_of(file: bytes, index: int) -> container_pb2.ColumnMetadata:
    at = int.from_bytes(file[-32:-24], "little") + 16 * index
    start, size = np.frombuffer(file[at : at + 16], np.uint64).tolist()
    return container_pb2.ColumnMetadata.FromString(file[start : start + size])


def check_pages(found: FilePages, data: bytes, files: list[list[int]], columns: list[int]) -> None:
    """Check that pages are those that protobuf finds."""
    for of_column, column in zip(found.pages.tolist(), columns, strict=True):
        descriptions = []
        for page, (start, end) in zip(of_column, files, strict=True):
            metadata = column_of(data[start:end], column)
            (known,) = metadata.pages
            places = zip(known.buffer_offsets, known.buffer_sizes, strict=True)
            buffers = [bound for at, size in places for bound in (start + at, start + at + size)]
            assert page[: FileColumn.FIRST] == [known.length, len(buffers) // 2]
            assert page[FileColumn.FIRST : FileColumn.DESCRIPTION] == (buffers + [0] * 6)[:6]
            own = data[slice(*page[FileColumn.DESCRIPTION : FileColumn.ENCODING])]
            assert own == known.encoding.direct.encoding
            of_all = data[slice(*page[FileColumn.ENCODING : FileColumn.LIKE])]
            assert of_all == metadata.encoding.direct.encoding
            descriptions.append(own)
            assert page[FileColumn.LIKE] == descriptions.index(own)


@settings(max_examples=examples(1000))
@given(small_files())
def test_pages_are_those_that_protobuf_finds(arguments: Arguments) -> None:
    data, files, columns = arguments
    found = find_pages(data, files, columns)
    if found is not None:
        check_pages(found, data.tobytes(), files.tolist(), columns.tolist())


@settings(max_examples=examples(300))
@given(small_files(may_be_odd=False))
def test_pages_of_sound_files_are_found(arguments: Arguments) -> None:
    data, files, _ = arguments
    found = find_pages(*arguments)
    assert found is not None
    ends = files[:, 1].tolist()
    assert found.versions.tolist() == [[2, data[end - 6]] for end in ends]
