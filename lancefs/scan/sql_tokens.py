"""The words of a filter in SQL text, and errors that show where in the text they apply."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias, cast

from lancefs.errors import InvalidFilter

TokenKind: TypeAlias = Literal[
    "number", "string", "binary", "name", "quoted", "sign", "numbers", "strings", "end"
]

# Items of a list that are literals of one kind, and what is in front of the first one. A whole
# number is one of 64 bits. What follows an item is part of it, so that an item of another kind ends
# a run, and nothing is scanned in vain.
_RUN = r"(?:(?<=[(\[,])|(?<=[(\[,]\s)){item}(?:\s*+,\s*+{item}){{15,}}+"
_ITEM_ENDS = r"(?=\s*+[,)\]])"
_WHOLE_ITEM = rf"-?[0-9]{{1,18}}+{_ITEM_ENDS}"
_STRING_ITEM = rf"'[^']*+'{_ITEM_ENDS}"
# The quantifiers are possessive, and any character is something: a number of a hundred thousand
# digits is scanned once, also where it is none.
_TOKEN = re.compile(
    rf"""
    (?P<space>(?:\s|--[^\n]*|/\*.*?\*/)++)
  | (?P<numbers>{_RUN.format(item=_WHOLE_ITEM)})
  | (?P<strings>{_RUN.format(item=_STRING_ITEM)})
  | (?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+(?![\w.]))
  | (?P<string>'(?:[^']|'')*+')
  | (?P<binary>[xX]'[^']*+')
  | (?P<name>[^\W\d]\w*+)
  | (?P<quoted>"(?:[^"]|"")*+"|`(?:[^`]|``)*+`)
  | (?P<sign><=|>=|<>|!=|==|::|\|\||[-+*/%=<>(),.\[\]])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Characters of the text that an error shows.
_SHOWN = 40


class Token(NamedTuple):
    """A word, a sign or a literal of a filter.

    Attributes:
        kind: What it is; `end` follows the last token. Items of a list, of which there may be
            thousands, are one token: whole numbers, or strings, with the commas between them.
        text: A name, a sign or items as written, a string or quoted name without its quotes, the
            hexadecimal digits of a binary.
        word: The text in lower case where it may be a keyword or is a sign; else nothing.
        start: Index of its first character in the filter.
        end: Index after its last character.
    """

    kind: TokenKind
    text: str
    word: str
    start: int
    end: int


class Refused(Exception):
    """A part of a filter that cannot be read, or that does not fit the columns.

    Args:
        what: The reason.
        start: Index of the part's first character in the filter.
    """

    def __init__(self, what: str, start: int) -> None:
        super().__init__(what)
        self.what = what
        self.start = start

    def to_error(self, text: str) -> InvalidFilter:
        """Return the error for users: one line, with the place in the filter."""
        rest = text[self.start :].strip()
        if rest:
            shown = rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}…"
            return InvalidFilter(
                f"{self.what}, at character {self.start + 1} of the filter: {shown!r}"
            )
        text = text.strip()
        shown = text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"
        return InvalidFilter(f"{self.what}, at the end of the filter: {shown!r}")


def tokenize(text: str) -> list[Token]:
    """Split a filter into tokens; the last one is of the kind `end`.

    Raises:
        Refused: A character begins no token.
    """
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind, (start, end) = match.lastgroup, match.span()
        if kind == "sign":
            tokens.append(Token("sign", match[0], match[0], start, end))
        elif kind == "number":
            tokens.append(Token("number", match[0], "", start, end))
        elif kind == "other":
            raise Refused(_why_no_token(match[0]), start)
        elif kind is not None and kind != "space":
            tokens.append(_token(kind, match[0], start, end))
    return [*tokens, Token("end", "", "", len(text), len(text))]


def _token(kind: str, text: str, start: int, end: int) -> Token:
    word = text.lower() if kind == "name" else ""
    if kind == "binary":
        text = text[2:-1]
    elif kind in ("string", "quoted"):
        text = text[1:-1].replace(text[0] * 2, text[0])
    return Token(cast(TokenKind, kind), text, word, start, end)


def _why_no_token(character: str) -> str:
    if character in "'\"`":
        return f"the quote {character} is not closed"
    if character in "0123456789.":
        return "a number was expected"
    meant = {"&": ": write and", "|": ": write or"}.get(character, "")
    return f"{character!r} has no meaning{meant}"
