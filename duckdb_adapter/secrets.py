"""Storage options for S3 from DuckDB's own secrets, if they can be read.

DuckDB shows where a secret leads (region, endpoint, …) to everyone, and what is secret of it only
where the database was opened with `allow_unredacted_secrets`. A connection is needed to ask, so
that this works for wrapped connections; DuckDB passes no secrets to an extension.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from duckdb_adapter.paths import options_for, protocol_of
from duckdb_adapter.pinned_versions import PinnedVersions
from duckdb_adapter.storage import Storage

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


class SecretStorage(Storage):
    """Storage with the options that the user gave, or else those of a secret.

    Args:
        connection: Whose secrets are looked at.
        options: As of `Storage`.
        rules: As of `Storage`.
        use_index: As of `Storage`.
        pins: As of `Storage`.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        options: Mapping[str, Any],
        rules: BaseRules | None,
        use_index: bool,
        pins: PinnedVersions | None,
    ) -> None:
        self._of_secrets: dict[str, Mapping[str, Any]] = {}
        super().__init__(options, rules, use_index, pins, self._of_secrets)
        self._connection = connection

    def __call__(self, url: str) -> Mapping[str, Any]:
        """Return the storage options for a URL."""
        if options_for(url, self.options):
            return super().__call__(url)
        for part in url.split("::"):
            protocol = protocol_of(part)
            if protocol in _PROTOCOLS:
                found = self._find(part)
                chained = found if part == url or not found else {str(protocol): found}
                self._of_secrets[url] = chained
                return chained
        return {}

    def recorded(self) -> Storage:
        """Return storage that answers for the same URLs without the connection."""
        return Storage(self.options, self.rules, self.use_index, self.pins, self._of_secrets)

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
