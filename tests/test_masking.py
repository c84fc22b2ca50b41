"""Secrets of URLs are replaced in texts, and nothing else is."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.errors import CorruptFile, MissingFile, ReadFailed, cause
from lancefs.masking import mask_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@host/t.lance: gone", "https://***@host/t.lance: gone"),
        ("https://token@host/t.lance", "https://***@host/t.lance"),
        ("http://me:p@w@host/t", "http://***@host/t"),
        ("sftp://me:pw@host/t.lance", "sftp://me:***@host/t.lance"),
        (
            "https://h/t?X-Amz-Signature=ab%2Fc&X=1: gone",
            "https://h/t?X-Amz-Signature=***&X=***: gone",
        ),
        ("url='https://h/t?sig=a'b'", "url='https://h/t?sig=***'"),
        ("lance://latest.arrow::https://h/t?sig=ab", "lance://latest.arrow::https://h/t?sig=***"),
        (
            "see https://h/x?a=1, and http://h/y?b=2.",
            "see https://h/x?a=***, and http://h/y?b=***.",
        ),
        ("https://h/t?secret", "https://h/t?***"),
        ("https://h/#access_token=xyz", "https://h/#access_token=***"),
        (
            "Max retries exceeded with url: /tokeninfo?access_token=xyz (Caused by …)",
            "Max retries exceeded with url: /tokeninfo?access_token=*** (Caused by …)",
        ),
    ],
)
def test_secrets_are_masked(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/t.lance",
        "abfs://container@account.dfs.core.windows.net/t.lance",
        "s3+ddb://bucket/t.lance?ddbTableName=commits",
        "https://host:8443/a/b.lance",
        "/data/me@home:1/t.lance?x=1",
        "see https://h/page#part",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert mask_secrets(text) == text


@pytest.mark.parametrize(
    "unit",
    ["a://", "a-", "http://", "x://a:b@", "x://u:", ":", ".", "=.", "'", "with url: /", "?"],
)
@pytest.mark.parametrize("start", ["s3://x ", "s3://x?", "s3://x?a="])
def test_a_long_text_of_a_table_takes_no_longer_than_its_length(start: str, unit: str) -> None:
    text = start + unit * 30_000 + "x sftp://me:pw@host/t https://h/t?sig=ab"
    shown = mask_secrets(text)  # not in hours
    assert "pw" not in shown
    assert "ab" not in shown


def test_any_number_of_passwords_is_masked() -> None:
    logins = [f"sftp://me:pw{number}@host/{number}" for number in range(20_000)]
    shown = mask_secrets(" ".join([*logins, "refused: me:pw19999@host, at 12:30"]))
    masked = [f"sftp://me:***@host/{number}" for number in range(20_000)]
    assert shown == " ".join([*masked, "refused: me:***@host, at 12:30"])


@given(st.text(alphabet="abcXYZ09-_.~%+=/", min_size=6, max_size=40).map("s3cret".__add__))
def test_no_value_of_a_query_is_left(secret: str) -> None:
    text = f"403, url='https://host/t.lance?X-Amz-Signature={secret}&a={secret}' failed"
    assert "s3cret" not in mask_secrets(text)


@pytest.mark.parametrize("kind", [MissingFile, ReadFailed, CorruptFile])
def test_errors_mask_and_can_be_pickled(kind: type[Exception]) -> None:
    error = kind("https://me:pw@h/t?sig=ab: gone")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert str(one) == "https://***@h/t?sig=***: gone"
        assert "pw" not in repr(one)


def test_a_cause_with_a_secret_is_not_shown() -> None:
    harmless, telling = OSError("refused"), OSError("https://h/t?sig=ab refused")
    telling_below = OSError("refused")
    telling_below.__context__ = telling
    assert cause(harmless) is harmless
    assert cause(telling) is None
    assert cause(telling_below) is None
