"""Documents that several tokens have, and words that follow each other in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import ints
from hypothesis import given
from kernel_inputs import compiled_kernel
from phrase_inputs import ascending_numbers, words_of_documents

from lancefs.datafile.kernels import phrases
from lancefs.errors import CorruptFile


@given(arguments=ascending_numbers())
def test_common_numbers_are_found_where_both_have_them(arguments: Any) -> None:
    few, many = arguments
    own, theirs = phrases.find_common(few, many)
    expected = np.intersect1d(few, many)
    assert few[own].tolist() == many[theirs].tolist() == expected.tolist()


@given(arguments=words_of_documents())
def test_a_word_follows_another_one_of_its_document_within_a_distance(arguments: Any) -> None:
    (starts, places), documents, before, shift, slop = arguments
    try:
        found = phrases.follow_words(*arguments)
    except CorruptFile:
        return
    for number, document in enumerate(documents):
        own = [int(one) - shift for one in places[starts[document] : starts[document + 1]]]
        if before is not None:
            others = before[1][before[0][number] : before[0][number + 1]].tolist()
            own = [one for one in own if any(0 <= one - other <= slop for other in others)]
        assert found[1][found[0][number] : found[0][number + 1]].tolist() == own


@pytest.mark.parametrize(
    "kernel", [phrases.follow_words, compiled_kernel("follow_words")], ids=["numpy", "in use"]
)
@pytest.mark.parametrize(
    ("starts", "documents"),
    [([0, 1, 2], [2]), ([0, 1, 9], [1]), ([0, 2, 1], [1]), ([0, 1, 2], [-1])],
)
def test_places_that_are_not_there_are_refused(
    kernel: Any, starts: list[int], documents: list[int]
) -> None:
    with pytest.raises(CorruptFile):
        kernel((ints(starts), ints([3, 7])), ints(documents), None, 0, 0)
