"""Numbers that wrap or contradict each other give an error that says so, or the rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from damage.forged import FORGED
from damage.processes import KERNELS, run_python

# Some numbers are in no page, but in the description of the column.
PLACE = r"^.*\.lance: a, column 0 \(\w+\)(, page \d+)?: "


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_table_gives_an_error_that_says_why_or_its_rows(
    tmp_path: Path, name: str, kernels: str
) -> None:
    build, refusal, rows = FORGED[name]
    path = tmp_path / f"{name}.lance"
    build(path)
    lines = run_python(kernels, "-m", "damage.forged_worker", str(path), timeout=60)
    results = [json.loads(line) for line in lines]
    assert results
    wanted = [repr(row) for row in rows]
    ends = [wanted[0], wanted[-1]] if wanted else []
    expected = {"whole": wanted, "head": wanted[:3], "two": ends, "batches": wanted}
    for how, raised, said, found in results:
        if refusal is None:
            assert (raised, found) == (None, expected[how]), (how, said)
        else:
            assert raised == "CorruptFile", (how, raised, said, found)
            assert re.search(f"{PLACE}.*({refusal})", said), (how, said)
