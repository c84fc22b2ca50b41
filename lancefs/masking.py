"""Secrets in URLs are replaced by `***` before a text is shown: in errors, logs and reports.

What counts as a secret: a password, the whole user part of a web address (which may be a token),
and the value of every query parameter but a few that are known to be none. Signed URLs name their
secrets in many ways (`X-Amz-Signature`, `sig`, `token`, …), so that a list of names would be
incomplete.
"""

from __future__ import annotations

import re

MASK = "***"

# Query parameters that say where or which, and grant nothing.
_HARMLESS = {"ddbtablename", "versionid", "version", "snapshot"}

# Characters that a URL in a text may have; a quote only where the URL goes on behind it.
_CHARACTER = r"""(?:[^\s"<>'#]|'(?![\s,;:.)\]}]|$))"""
# What texts quote may come from a table, and be long: each pattern looks at a character a few
# times at most. So none begins with a scheme, which could begin at many characters of a word.
_URL = r"(?<=[\w+.-])://"
_WEB_LOGIN = re.compile(r"(\bhttps?://)[^/?#\s'\"<>]*@", re.IGNORECASE)
_PASSWORD = re.compile(rf"({_URL}[^/?#\s'\"<>:@]*):([^/?#\s'\"<>]*)@")
# Either an address and its query, or the whole of an address without one.
_QUERY = re.compile(
    rf"({_URL}{_CHARACTER}*?[?#])({_CHARACTER}+(?:#{_CHARACTER}*)?)|{_URL}{_CHARACTER}*"
)
# As urllib3 quotes what it asked a server for.
_REQUEST = re.compile(r"(with url: /[^\s?#]*\?)(\S+)")
_SEPARATOR = re.compile("([&;#])")
# The punctuation of the text behind a URL is no part of its last value.
_PUNCTUATION = ":,.)]}"
# What a login cannot have in it; and passwords that are looked for one by one, at most.
_NO_LOGIN = re.compile(r"([/?#\s'\"<>])")
_MAX_PASSWORDS = 100


def mask_secrets(text: str) -> str:
    """Return a text with the secrets of the URLs in it replaced.

    A password is replaced where a library quotes a part of the URL, too: `key:secret@bucket`.

    Args:
        text: A URL, or a text that quotes some.
    """
    text = _REQUEST.sub(_masked_query, text)
    if "://" not in text:
        return text
    text = _WEB_LOGIN.sub(rf"\1{MASK}@", text)
    passwords = {found[2] for found in _PASSWORD.finditer(text) if found[2]}
    text = _PASSWORD.sub(rf"\1:{MASK}@", text)
    if len(passwords) > _MAX_PASSWORDS:
        text = "".join(map(_without_password, _NO_LOGIN.split(text)))
    else:
        for password in passwords:
            text = text.replace(f":{password}@", f":{MASK}@")
    return _QUERY.sub(_masked_query, text)


def has_secrets(error: BaseException | None, url: str) -> bool:
    """Return whether the message of an error, or of one that it came from, has a secret in it.

    Args:
        error: An error of any library; None has none.
        url: What was asked for; the message may quote a part of it.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        shown = f" {error} {error!r}"
        if mask_secrets(url + shown) != mask_secrets(url) + shown:
            return True
        error = error.__cause__ or error.__context__
    return False


def _without_password(login: str) -> str:
    """Return a part of a text, which may be a login, without what may be its password."""
    name, colon, rest = login.partition(":")
    _, at, host = rest.rpartition("@")
    return f"{name}:{MASK}@{host}" if colon and at else login


def _masked_query(found: re.Match[str]) -> str:
    address, query = found[1], found[2]
    if query is None:
        return found[0]
    if address.endswith("?") and "=" not in query:
        return f"{address}{MASK}"
    return address + "".join(map(_masked, _SEPARATOR.split(query)))


def _masked(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if not equals or name.lower() in _HARMLESS:
        return parameter
    return f"{name}={MASK}{value[len(value.rstrip(_PUNCTUATION)) :]}"
