"""What the tests of the DuckDB adapter share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from roads import ROADS, connect


@pytest.fixture(params=ROADS)
def con(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A connection on which Lance tables work, once each way."""
    connection = connect(request.param)
    yield connection
    connection.close()
