"""Long lists of constants in a statement, `id IN (17, 4, …)`, as parameters.

Programs write lists of thousands of ids, which take longer to parse than all else. What a statement
uses of a table does not depend on their values, so that statements with other lists are analyzed
once.
"""

from __future__ import annotations

import re
from functools import cache

# How many constants a list has at least that is replaced.
_MANY = 32
# Shorter texts have no such list.
_MIN_TEXT = 3 * _MANY
# What the parameters are called, with a number.
_LIST = "lancefs_list_"
_FLAGS = re.IGNORECASE | re.DOTALL | re.ASCII
_MAY_HAVE_LISTS = re.compile(r"\bin\s*\(\s*[-+'\d]", re.IGNORECASE)


def without_long_lists(text: str) -> str:
    """Return a statement with parameters in place of long lists of numbers or texts after `IN`.

    The first two constants of a list stay. Equal lists become the same parameter, others become
    another one. Lists of days stay, since their least and greatest ones are looked at.

    Args:
        text: One statement in SQL, which DuckDB has parsed. It is returned as it is where it is not
            clear where texts and comments end, or where it has parameters of its own or a PIVOT, in
            which a list of constants has other meanings.
    """
    if len(text) < _MIN_TEXT or _MAY_HAVE_LISTS.search(text) is None:
        return text
    parts, names = list[str](), dict[str, str]()
    place = 0
    while (found := _up_to_list().match(text, place)) is not None:
        name = names.setdefault(found["others"], f", ${_LIST}{len(names)}")
        parts += [found["before"], name]
        place = found.end()
    if not parts or _without_lists().fullmatch(text, place) is None:
        return text
    return "".join([*parts, text[place:]])


def is_long_list(parameter: str) -> bool:
    """Whether a parameter stands for a list that `without_long_lists` has replaced.

    Args:
        parameter: Its name.
    """
    return parameter.startswith(_LIST)


@cache
def _up_to_list() -> re.Pattern[str]:
    """Return a pattern of what goes before the long list that comes next, and of this list.

    Nothing that it matches is given back, so that it takes time for each character once.
    """
    day = r"\d{4}-\d\d-\d\d"
    constant = rf"(?:[-+]?\d[\d_.]*+(?:[eE][-+]?\d++)?|'(?!{day})(?:[^']|'')*+')"
    others = rf"(?:\s*+,\s*+{constant}){{{_MANY},}}+"
    in_list = rf"in\s*+\(\s*+{constant}\s*+,\s*+{constant}"
    end = r"(?=\s*+\))"
    return re.compile(
        rf"(?P<before>{_tokens(f'{in_list}{others}{end}')}{in_list})(?P<others>{others}){end}",
        _FLAGS,
    )


@cache
def _without_lists() -> re.Pattern[str]:
    return re.compile(_tokens("(?!)"), _FLAGS)


def _tokens(excluded: str) -> str:
    """Return a pattern of any tokens of SQL but some.

    Comments in comments, those that a lone carriage return may end, texts between dollars, and
    letters beyond ASCII outside of quotes are no tokens here.

    Args:
        excluded: A pattern of those that begin with a word and are left out.
    """
    word = rf"(?!{excluded})(?!(?:un)?pivot\b)\w++"
    text = r"e'(?:[^'\\]|\\.|'')*+'|'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\""
    comment = r"--[^\r\n]*+(?=\r?\n|\Z)|/\*(?:[^*/]|\*(?!/)|/(?!\*))*+\*/"
    return rf"(?:{text}|{word}|{comment}|-(?!-)|/(?!\*)|[^\w'\"$?/\x80-\U0010ffff-]++)*+"
