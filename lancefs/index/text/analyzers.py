"""From texts to tokens, as the parameters of an index say it.

A text is split into words; the filters drop words or change them, in this order: length, lower
case, stem, stop words, ASCII folding. A token keeps the place of its word among all words.

Format page: full-text index (`docs/src/format/index/scalar/fts.md`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.index.text.characters import letters, lower
from lancefs.index.text.folding import fold

# Most words whose tokens are cached.
_MAX_KNOWN = 64 * 1024
# The first release of snowballstemmer that finds the same stems as Lance for all words.
_STEMMER = (3, 1)
_WITHOUT_STEMMER = (
    "the index holds stems of English words, for which snowballstemmer 3.1 is needed, {}: "
    "pip install 'lancefs[text]'"
)
# The stop words of English, as Lance 14 has them: those that it drops of all common words.
_STOP_WORDS = """
a about above after again against all am an and any are as at be because been before being below
between both but by can did do does doing down during each few for from further had has have
having he he'd he'll he's her here hers herself him himself his how i i'd i'll i'm i've if in into
is it it'd it'll it's its itself just me more most my myself now of off on once only or other our
ours ourselves out over own re same she she'd she'll she's should should've so some such than that
that'll the their theirs them themselves then there these they they'd they'll they're they've this
those through to too under until up very was we we'd we'll we're we've were what when where which
while who whom why will with you you'd you'll you're you've your yours yourself yourselves
"""


class TextToken(NamedTuple):
    """A token of a text.

    Attributes:
        text: The token.
        position: Place of its word among the words of the text.
    """

    text: str
    position: int


class AnalyzerParams(NamedTuple):
    """How texts become tokens.

    Attributes:
        base: How texts are split: `simple`, `whitespace` or `raw`.
        max_length: Words of so many bytes and more are dropped; None to keep all.
        is_lowered: Whether words are made lower case.
        is_stemmed: Whether words are reduced to their stems.
        stop_words: Words that are dropped.
        is_folded: Whether characters that are close to ASCII ones become these.
    """

    base: str
    max_length: int | None
    is_lowered: bool
    is_stemmed: bool
    stop_words: frozenset[str]
    is_folded: bool


# What Lance does with a column that has no index: words, as they are.
PLAIN = AnalyzerParams("simple", None, False, False, frozenset(), False)


class Analyzer:
    """Turns texts into tokens.

    Args:
        params: How.

    Raises:
        ImportError: The library that finds stems is not installed, or too old.
    """

    def __init__(self, params: AnalyzerParams) -> None:
        self.params = params
        self._words = _words(params.base)
        self._filters = list(_filters(params))
        self._known: dict[str, str | None] = {}

    def tokens(self, text: str) -> list[TextToken]:
        """Return the tokens of a text, in order."""
        found = enumerate(map(self._token, self._words(text)))
        return [TextToken(token, position) for position, token in found if token is not None]

    def words(self, text: str) -> Sequence[str | None]:
        """Return the token of each word of a text, None where the word is dropped."""
        return [self._token(word) for word in self._words(text)]

    def _token(self, word: str) -> str | None:
        try:
            return self._known[word]
        except KeyError:
            pass
        token: str | None = word
        for change in self._filters:
            token = change(token)
            if token is None:
                break
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[word] = token
        return token


def params_of_json(text: bytes) -> AnalyzerParams:
    """Return the parameters that an index file tells.

    Args:
        text: The parameters, as JSON.

    Raises:
        CorruptFile: They are not what they should be.
        UnsupportedFeature: This release cannot do what they ask for.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"the parameters of the tokenizer are no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CorruptFile("the parameters of the tokenizer are no object of JSON")
    return params_of(found)


def params_of(found: Mapping[str, Any]) -> AnalyzerParams:
    """Return parameters by their names; see `params_of_json`."""
    kind = found.get("lance_tokenizer") or "text"
    base = found.get("base_tokenizer")
    if kind != "text" or base not in _BASES:
        name = base if kind == "text" else kind
        raise UnsupportedFeature(
            f"texts are split by the tokenizer {str(name)[:40]!r}; {', '.join(_BASES)} are known"
        )
    language = str(found.get("language") or "English").strip('"')
    is_stemmed, has_stop_words = _flag(found, "stem"), _flag(found, "remove_stop_words")
    custom = found.get("custom_stop_words")
    needs_language = is_stemmed or (has_stop_words and custom is None)
    if needs_language and language != "English":
        raise UnsupportedFeature(f"stems or stop words of the language {language[:40]!r}")
    length = found.get("max_token_length")
    if length is not None and not (isinstance(length, int) and length >= 0):
        raise CorruptFile(f"the tokenizer's max_token_length is {str(length)[:40]!r}")
    words = _STOP_WORDS.split() if custom is None else custom
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise CorruptFile("the tokenizer's custom_stop_words are no list of words")
    return AnalyzerParams(
        str(base),
        length,
        _flag(found, "lower_case"),
        is_stemmed,
        frozenset(words if has_stop_words else ()),
        _flag(found, "ascii_folding"),
    )


def _flag(found: Mapping[str, Any], name: str) -> bool:
    value = found.get(name, True)
    if not isinstance(value, bool):
        raise CorruptFile(f"the tokenizer's {name} is {str(value)[:40]!r}")
    return value


@cache
def _simple() -> Callable[[str], list[str]]:
    return re.compile(f"(?:[^\\W_]|[{letters()}])+").findall


_BASES: Collection[str] = ("simple", "whitespace", "raw")


def _words(base: str) -> Callable[[str], list[str]]:
    """Return what splits texts into words."""
    if base == "simple":
        return _simple()
    if base == "whitespace":
        return re.compile("[^ \t\n\f\r]+").findall
    return lambda text: [text]


def _filters(params: AnalyzerParams) -> Iterable[Callable[[Any], str | None]]:
    """Yield what is done to each word; None drops it."""
    if params.max_length is not None:
        limit = params.max_length
        yield lambda word: word if len(word.encode("utf-8", "replace")) < limit else None
    if params.is_lowered:
        yield lower
    if params.is_stemmed:
        yield _stemmer()
    if params.stop_words:
        yield lambda word: None if word in params.stop_words else word
    if params.is_folded:
        yield fold


@cache
def _stemmer_version() -> str:
    """Return the release of the stemmer; reading it takes milliseconds."""
    return version("snowballstemmer")


def _stemmer() -> Callable[[str], str]:
    """Return what finds the stems of English words.

    Raises:
        ImportError: The library is not installed, or of a release that finds other stems.
    """
    try:
        import snowballstemmer  # type: ignore[import-untyped]

        found = _stemmer_version()
    except ImportError as error:
        raise ImportError(_WITHOUT_STEMMER.format("which is not installed")) from error
    if tuple(int(part) for part in found.split(".")[:2]) < _STEMMER:
        raise ImportError(_WITHOUT_STEMMER.format(f"and this is {found}, which finds other stems"))
    stem: Callable[[str], str] = snowballstemmer.stemmer("english").stemWord
    return stem
