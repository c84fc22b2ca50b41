"""The compiled kernels give what the NumPy ones give, and refuse what they refuse.

The NumPy kernels, which are the definition of right, are in turn held against definitions that are
slow and plain, in the files beside this one.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_inputs import PAIRS, compiled_kernel, needs_library, outcome
from support import examples


@needs_library
@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=examples(300))
@given(data=st.data())
def test_both_kernels_agree(name: str, data: st.DataObject) -> None:
    reference, inputs = PAIRS[name]
    arguments = data.draw(inputs)
    assert outcome(compiled_kernel(name), arguments) == outcome(reference, arguments)
