"""Small tables that expand to gigabytes, for each way that bytes can tell of many more bytes."""

from __future__ import annotations

from damage import index_bombs, page_bombs, table_bombs

BOMBS = page_bombs.BOMBS | table_bombs.BOMBS | index_bombs.BOMBS
