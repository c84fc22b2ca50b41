"""Write the table that the demo shows: the orders of a small tea shop, in four versions.

It needs pylance, which `make venv` installs; the demo itself reads `examples/data/orders.lance`,
which is checked in.

    .venv/bin/python examples/make_table.py
"""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa

TABLE = Path(__file__).parent / "data" / "orders.lance"

ORDERS = 1200
OPENING = datetime(2026, 1, 5, 9, tzinfo=UTC)
CITIES = ["Utrecht", "Gent", "Porto", "Lyon", "Graz"]
TEAS = {
    "Assam": "14.50",
    "Darjeeling": "18.90",
    "Earl Grey": "12.00",
    "Genmaicha": "16.40",
    "Lapsang Souchong": "15.80",
    "Rooibos": "9.90",
    "Sencha": "17.20",
}

SCHEMA = pa.schema(
    [
        pa.field("order_id", pa.int32(), nullable=False),
        pa.field("ordered_at", pa.timestamp("us", tz="UTC")),
        pa.field("city", pa.string()),
        pa.field("tea", pa.string()),
        pa.field("quantity", pa.int16()),
        pa.field("price", pa.decimal128(8, 2)),
        pa.field("note", pa.string()),
    ]
)


def orders(chance: random.Random) -> pa.Table:
    """Make up the orders of the first weeks."""
    rows = []
    time = OPENING
    for number in range(1, ORDERS + 1):
        time += timedelta(minutes=chance.expovariate(1 / 45))
        tea = chance.choice(list(TEAS))
        rows.append(
            {
                "order_id": number,
                "ordered_at": time,
                "city": chance.choices(CITIES, weights=[8, 5, 4, 3, 2])[0],
                "tea": "test order" if number % 97 == 0 else tea,
                "quantity": chance.choices([1, 2, 3, 5, 10], weights=[10, 6, 3, 2, 1])[0],
                "price": Decimal(TEAS[tea]),
                "note": chance.choices([None, "gift", "please ring twice"], weights=[9, 2, 1])[0],
            }
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def main() -> None:
    """Write all versions anew."""
    shutil.rmtree(TABLE, ignore_errors=True)
    table = orders(random.Random(7))
    lance.write_dataset(table, TABLE, data_storage_version="2.1")  # 1: the orders
    dataset = lance.dataset(TABLE)
    dataset.delete("tea = 'test order'")  # 2: without those that were tests
    dataset.add_columns({"total": "price * quantity"})  # 3: with a column more
    dataset.tags.create("prod", 3)
    more = lance.dataset(TABLE).to_table(limit=3)
    numbers = pa.array(range(ORDERS + 1, ORDERS + 4), pa.int32())
    more = more.set_column(0, SCHEMA.field("order_id"), numbers)
    lance.write_dataset(more, TABLE, mode="append")  # 4: three regulars come back
    print(f"wrote {TABLE.relative_to(Path.cwd())}: {lance.dataset(TABLE).count_rows()} orders")


if __name__ == "__main__":
    main()
