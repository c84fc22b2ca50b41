"""Tables on S3 are read with DuckDB's own secrets, as far as DuckDB shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import duckdb
import fsspec
import pytest
from roads import ORDERS_ROWS, needs_install
from store_servers import s3_server
from support import ORDERS
from tpch import load_extension

import duckdb_adapter
from duckdb_adapter.secrets import _MEMBER, SecretStorage, s3_options

needs_httpfs = pytest.mark.skipif(
    find_spec("duckdb_extension_httpfs") is None or duckdb.__version__ != "1.5.5",
    reason="secrets for S3 need DuckDB's extension httpfs, which is not here",
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Where an S3 with the table of the demo in it listens."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with s3_server() as (url, _):
        fs = fsspec.filesystem("s3", key="k", secret="s", endpoint_url=url)
        fs.mkdir("tables")
        fs.put(ORDERS, "tables/orders.lance", recursive=True)
        yield url.removeprefix("http://")


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a secret tells how to reach the store."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


def connection(server: str, *, shows_secrets: bool, **kwargs: Any) -> Any:
    config = {"allow_unredacted_secrets": shows_secrets}
    con = duckdb_adapter.connect(config=config, **kwargs)
    load_extension(con, "httpfs")
    con.execute(
        f"""
        CREATE SECRET mine (TYPE s3, KEY_ID 'k', SECRET 'a;b=c', ENDPOINT '{server}', USE_SSL false,
                            URL_STYLE 'path', REGION 'eu-west-1', SCOPE 's3://tables')
        """
    )
    return con


@needs_httpfs
def test_a_secret_opens_a_table(server: str) -> None:
    with connection(server, shows_secrets=True) as con:
        for name in ("s3://tables/orders.lance", "simplecache::s3://tables/orders.lance@v1"):
            count = con.execute(f"SELECT count(*) FROM '{name}'").fetchone()
            assert count == (ORDERS_ROWS[1 if name.endswith("v1") else 4],)
        assert duckdb_adapter.attach(con, "s3://tables") == ["orders"]
        assert con.execute("SELECT count(*) FROM lake.orders").fetchone() == (ORDERS_ROWS[4],)


@needs_httpfs
def test_options_that_were_given_win(server: str) -> None:
    nowhere = {"s3": {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:1"}}
    with (
        connection(server, shows_secrets=True, storage_options=nowhere) as con,
        pytest.raises(duckdb.Error, match=r"127\.0\.0\.1:1"),
    ):
        con.execute("FROM 's3://tables/orders.lance'")


@needs_httpfs
def test_a_secret_that_is_not_shown_is_told_of(server: str) -> None:
    with (
        connection(server, shows_secrets=False) as con,
        pytest.raises(duckdb.Error, match=r"secret 'mine'.*allow_unredacted_secrets"),
    ):
        con.execute("FROM 's3://tables/orders.lance'")


@needs_httpfs
def test_a_secret_of_another_scope_is_not_used(server: str) -> None:
    storage = connection(server, shows_secrets=True).storage()
    assert storage("s3://other/t.lance") == {}
    assert storage("/data/t.lance") == {}
    assert storage("s3a://tables/t.lance")["secret"] == "a;b=c"


@needs_install  # older releases ask for httpfs, and give up the transaction
def test_secrets_are_looked_up_while_a_query_is_bound(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = SecretStorage._find
    members = {"key_id": "k", "secret": "s", "endpoint": server, "use_ssl": "false"}

    def find(self: SecretStorage, url: str) -> dict[str, Any]:
        assert asked(self, url) == {}  # DuckDB answers, though it knows no such secret
        self.note = " (so it is)"
        return s3_options({**members, "url_style": "path"}, is_config=True)

    monkeypatch.setattr(SecretStorage, "_find", find)
    con = duckdb_adapter.connect()
    con.execute("BEGIN; CREATE TABLE mine (a INT)")
    query = "SELECT count(*) FROM 's3://tables/orders.lance'"
    relation = con.sql(query)
    assert relation.fetchall() == [(ORDERS_ROWS[4],)]
    con.execute("COMMIT")
    with pytest.raises(duckdb.Error, match=r"no version 77.*\(so it is\)"):
        con.execute("FROM 's3://tables/orders.lance@v77'")
    del con
    assert relation.filter("true").fetchall() == [(ORDERS_ROWS[4],)]


def test_without_secrets_there_are_no_options() -> None:
    storage = duckdb_adapter.connect().storage()
    assert storage("s3://other/t.lance") == {}
    assert storage.note == ""


@pytest.mark.parametrize(
    ("text", "is_config", "options"),
    [
        (
            "key_id=k;region=r;secret=x;y=z;session_token=t;url_style=vhost",
            True,
            {
                "key": "k",
                "secret": "x;y=z",
                "token": "t",
                "client_kwargs": {"region_name": "r"},
                "config_kwargs": {"s3": {"addressing_style": "virtual"}},
            },
        ),
        ("name=open;endpoint=s3.amazonaws.com;", True, {"anon": True}),
        ("name=chained;chain=env;region=r", False, {"client_kwargs": {"region_name": "r"}}),
        (
            "key_id=k;secret=redacted;session_token=redacted;endpoint=host:1;requester_pays=true",
            True,
            {"client_kwargs": {"endpoint_url": "https://host:1"}, "requester_pays": True},
        ),
    ],
)
def test_what_a_secret_says_is_what_s3fs_takes(
    text: str, is_config: bool, options: dict[str, Any]
) -> None:
    assert s3_options(dict(re.findall(_MEMBER, text)), is_config) == options
