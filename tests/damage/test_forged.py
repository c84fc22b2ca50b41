"""Numbers that wrap or contradict each other give an error that says so, or the rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from damage.forged import FORGED
from damage.forking import Forks
from damage.processes import KERNELS, environment

# Some numbers are in no page, but in the description of the column.
PLACE = r"^.*\.lance: a, column 0 \(\w+\)(, page \d+)?: "


@pytest.fixture(scope="module", params=KERNELS)
def forks(request: pytest.FixtureRequest) -> Iterator[Forks]:
    with closing(Forks("damage.forged_worker", environment(request.param))) as process:
        yield process


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_table_gives_an_error_that_says_why_or_its_rows(
    tmp_path: Path, name: str, forks: Forks
) -> None:
    build, refusal, rows = FORGED[name]
    path = tmp_path / f"{name}.lance"
    build(path)
    results = [json.loads(line) for line in forks.read(str(path))]
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
