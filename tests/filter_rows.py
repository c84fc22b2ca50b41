"""Rows of many types, on which filters in SQL text are tried."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa

N = 12
NAN = float("nan")
START = datetime(2026, 1, 1, tzinfo=UTC)


def gaps(values: list[object]) -> list[object]:
    """Leave every fifth value out."""
    return [None if i % 5 == 3 else values[i % len(values)] for i in range(N)]


ROWS = pa.table(
    {
        "id": pa.array(range(N), pa.int32()),
        "i": pa.array(gaps([-7, -2, 0, 0, 3, 5, 7, 127]), pa.int8()),
        "big": pa.array(gaps([2**53 + 1, -(2**63), 2**63 - 1, 0, 4]), pa.int64()),
        "u": pa.array(gaps([0, 1, 200, 7]), pa.uint8()),
        "ubig": pa.array(gaps([0, 2**64 - 1, 5, 3, 2**63]), pa.uint64()),
        "x": pa.array(gaps([0.0, -0.0, 1.5, NAN, -2.5, 0.1, float("inf"), 3.0]), pa.float64()),
        "f": pa.array(gaps([0.1, -0.0, 1.5, NAN, NAN, 2.0]), pa.float32()),
        "price": pa.array(
            gaps([Decimal(n).scaleb(-2) for n in (125, 10, -250, 0, 250, 300)]),
            pa.decimal128(8, 2),
        ),
        "wide": pa.array(
            gaps([Decimal("0.1"), Decimal("1.5"), Decimal("-2.5"), Decimal("3")]),
            pa.decimal128(38, 20),
        ),
        "city": pa.array(gaps(["Gent", "Lyon", "L'Île", "gent", "100%", "a_b", "a\\b", ""])),
        "note": pa.array(gaps(["x\ny", "ß", "Gent", "e", "lyon"]), pa.large_string()),
        "gift": pa.array(gaps([True, False, True, True, False])),
        "day": pa.array(gaps([date(2026, 1, n + 1) for n in range(N)])),
        "sent": pa.array(
            gaps([START + timedelta(hours=6 * n) for n in range(N)]), pa.timestamp("us", "UTC")
        ),
        "plain": pa.array(
            gaps([datetime(2026, 1, 1) + timedelta(hours=6 * n) for n in range(N)]),
            pa.timestamp("us"),
        ),
        "clock": pa.array(gaps([time(n, 30) for n in range(N)]), pa.time64("us")),
        "raw": pa.array(gaps([b"\x0a\xff", b"Gent", b"", b"a"])),
        "user": pa.array(
            gaps([{"age": n, "Name": None if n == 2 else f"n{n}"} for n in range(N)]),
            pa.struct([("age", pa.int64()), ("Name", pa.string())]),
        ),
        "tags": pa.array(
            gaps([["a", "b"], [], ["a", None], ["b"], [None], ["Gent"]]), pa.list_(pa.string())
        ),
        "nums": pa.array(gaps([[1, 2], [], [1, None], [2]]), pa.large_list(pa.int32())),
        "pair": pa.array(gaps([[1.0, 2.0], [NAN, 0.0], [0.1, None]]), pa.list_(pa.float32(), 2)),
        "odd name": pa.array(range(N)),
        "order": pa.array(range(N)),
        "date": pa.array([date(2026, 1, 1)] * N),
    }
)
