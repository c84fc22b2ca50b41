"""Text from tables, made safe to show: names, values and messages may hold anything.

An escape character changes what a terminal shows or does, a carriage return hides what was printed,
a line break adds lines that seem to be ours, and characters that turn the direction of writing make
a name look like another. All of them are shown as Python escapes them.
"""

from __future__ import annotations

import logging
from html import escape
from numbers import Number

# Characters of a text that is shown, about: a name or a type of a table may have millions.
_MOST = 10_000


def ends_of(text: str) -> str:
    """Return a text as it can be shown: of an endless one, the two ends."""
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]} … {text[-_MOST // 2 :]}"


def printable(text: str) -> str:
    """Return a text with all characters escaped that are not printable; a space is."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def shortened(text: str, length: int) -> str:
    """Return a text, cut with an ellipsis if it has more than `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def plural(number: int, noun: str) -> str:
    """Format a number and a noun: `1 row`, `2 rows`."""
    if number != 1:
        noun = noun.removesuffix("ex") + "ices" if noun.endswith("index") else noun + "s"
    return f"{number:,} {noun}"


def as_html(text: str) -> str:
    """Return a text as HTML that shows it, also inside of an attribute in quotes."""
    return escape(printable(text))


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a name, whose messages show texts and errors as `printable` does."""
    logger = logging.getLogger(name)
    if not any(isinstance(one, _Printable) for one in logger.filters):
        logger.addFilter(_Printable())
    return logger


class _Printable(logging.Filter):
    """Makes the arguments of messages printable."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change a record in place; no record is left out."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                argument if isinstance(argument, Number) else printable(str(argument))
                for argument in record.args
            )
        return True
