"""Damaged tables: bytes flipped, cut and put in, in every kind of file and region.

`regions` says what lies where in a file, `mutations` damages a region, `reading` reads the table
and judges what comes of it, and `worker` does that many times, in a process of its own.

`attack` does more of it, and by all doors: `attacked_tables` names the tables, `mutants` damages
them, with `wire` and `messages` also in the fields of their protobuf messages, `doors` reads them,
and `attack_worker` does so in a process of its own.
"""
