"""Storage options for S3 from DuckDB's own secrets, if they can be read.

DuckDB shows where a secret leads (region, endpoint, …) to everyone, and what is secret of it only
where the database was opened with `allow_unredacted_secrets`. A connection is needed to ask, so
that this works for wrapped connections; DuckDB passes no secrets to an extension.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from duckdb_adapter.paths import options_for, protocol_of
from duckdb_adapter.pinned_versions import PinnedVersions
from duckdb_adapter.storage import GivenStorage

if TYPE_CHECKING:
    import duckdb

    from lancefs.table.base_paths import BaseRules

_PROTOCOLS = ("s3", "s3a")
_REDACTED = "redacted"
_AWS = "s3.amazonaws.com"  # which stands for the endpoint of the region
# What an S3 secret may say. A value may hold any character, so that only these names part them.
_NAMES = (
    "name|type|provider|serializable|scope|endpoint|key_id|region|secret|session_token|url_style"
    "|use_ssl|verify_ssl|url_compatibility_mode|kms_key_id|requester_pays|assume_role_arn|chain"
    "|profile|validation|refresh|refresh_info|external_id|web_identity_token_file"
)
_MEMBER = rf"(?s)(?:^|;)({_NAMES})=(.*?)(?=;(?:{_NAMES})=|;?$)"


class SecretStorage:
    """Gives storage options for URLs: those that the user gave, or else those of a secret.

    Args:
        connection: Whose secrets are looked at.
        options: What the user gave, as `options_for` takes it.
        rules: How far base paths of manifests are followed.
        use_index: Whether filters may be looked up in the indices of tables.
        pins: The versions that the transaction has met.

    Attributes:
        note: What a user should know when the store refuses; empty where there is nothing.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        options: Mapping[str, Any],
        rules: BaseRules | None,
        use_index: bool,
        pins: PinnedVersions | None,
    ) -> None:
        self._connection = connection
        self._options = options
        self.rules = rules
        self.use_index = use_index
        self.pins = pins or PinnedVersions()
        self.note = ""
        self._found: dict[str, Mapping[str, Any]] = {}

    def with_pins(self, pins: PinnedVersions) -> SecretStorage:
        """Return the same storage for another transaction."""
        other = copy(self)
        other.pins = pins
        return other

    def recorded(self) -> GivenStorage:
        """Return storage that answers for the same URLs without the connection."""
        return GivenStorage(self._options, self.rules, self.use_index, self.pins, self._found)

    def __call__(self, url: str) -> dict[str, Any]:
        """Return the storage options for a URL."""
        given = options_for(url, self._options)
        if given:
            return given
        for part in url.split("::"):
            protocol = protocol_of(part)
            if protocol in _PROTOCOLS:
                found = self._find(part)
                chained = found if part == url or not found else {str(protocol): found}
                self._found[url] = chained
                return chained
        return {}

    def _find(self, url: str) -> dict[str, Any]:
        with self._connection.cursor() as cursor:
            # Where there is no secret, `which_secret` would go and look for an extension.
            known = cursor.execute("SELECT name FROM duckdb_secrets() WHERE type = 's3'").fetchone()
            if known is None:
                return {}
            row = cursor.execute(
                """
                SELECT name, provider, secret_string
                FROM which_secret(?, 's3')
                JOIN duckdb_secrets(redact := NOT current_setting('allow_unredacted_secrets'))
                USING (name, storage)
                """,
                [re.sub("^s3a:", "s3:", url)],
            ).fetchone()
        if row is None:
            return {}
        name, provider, text = row
        members = dict(re.findall(_MEMBER, text))
        if members.get("secret") == _REDACTED:
            self.note = (
                f" (DuckDB does not show what is secret in its secret {name!r}, so that the "
                "credentials of the environment were used: open the database with "
                "config={'allow_unredacted_secrets': True}, or give storage_options)"
            )
        return s3_options(members, is_config=provider == "config")


def s3_options(members: Mapping[str, str], is_config: bool) -> dict[str, Any]:
    """Return what an S3 secret says as s3fs takes it.

    Credentials that are redacted are left out, so that those of the environment are used.

    Args:
        members: The values of the secret by the names that DuckDB gives them.
        is_config: Whether its values were written down, and not found by the secret; one without
            any credentials then means a store that asks for none.
    """
    options: dict[str, Any] = {}
    client: dict[str, Any] = {}
    key, secret = members.get("key_id"), members.get("secret")
    if is_config and not key:
        options["anon"] = True
    elif key and secret and secret != _REDACTED:
        options |= {"key": key, "secret": secret}
        if members.get("session_token"):
            options["token"] = members["session_token"]
    if members.get("region"):
        client["region_name"] = members["region"]
    if members.get("endpoint", _AWS) != _AWS:
        scheme = "http" if members.get("use_ssl") == "false" else "https"
        client["endpoint_url"] = f"{scheme}://{members['endpoint']}"
    if client:
        options["client_kwargs"] = client
    if members.get("url_style"):
        style = "path" if members["url_style"] == "path" else "virtual"
        options["config_kwargs"] = {"s3": {"addressing_style": style}}
    if members.get("requester_pays") == "true":
        options["requester_pays"] = True
    return options
