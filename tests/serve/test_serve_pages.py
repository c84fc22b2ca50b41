"""The pages of the server: what they say, that nothing becomes markup, where links lead."""

from __future__ import annotations

import re
import shutil
from html import escape, unescape
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

import lance
import pyarrow as pa
import pytest
from serving import Answer, Served, serving

from lancefs.cli.pages.site import TablePages
from lancefs.views.tree import Root

TABLE = "/teas%20%3Cb%3E%26.lance"
PAGES = ["log", "schema", "rows", "describe", "diff?old=1"]  # and `report`, which takes longer


def links(answer: Answer, path: str) -> list[str]:
    """Return where the links of a page lead, as paths of the server."""
    found = [unescape(one) for one in re.findall(r'<a href ?="([^"]*)"', answer.text)]
    return [urljoin(path, one) for one in found]


@pytest.mark.parametrize("path", ["/", f"{TABLE}/", *(f"{TABLE}/{page}" for page in PAGES)])
def test_a_page_has_no_scripts_and_no_markup_of_the_table(served: Served, path: str) -> None:
    answer = served.ask(path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script" not in answer.text
    assert "teas <b>" not in answer.text
    assert "<i>" not in answer.text.replace("<i></i>", "")
    assert "teas &lt;b&gt;&amp;.lance" in answer.text


@pytest.mark.parametrize("path", ["/", f"{TABLE}/", *(f"{TABLE}/{page}" for page in PAGES)])
def test_all_links_of_a_page_lead_somewhere(served: Served, path: str) -> None:
    found = links(served.ask(path), path)
    assert found
    for one in sorted(set(found)):
        method = "GET" if one.endswith("/") else "HEAD"
        assert urlsplit(one).netloc == ""
        if not one.partition("?")[0].endswith("/report"):
            assert served.ask(one, method).status == 200, one


def test_no_page_hides_a_name_of_the_tree() -> None:
    assert not TablePages.names & set(Root.NAMES)


def test_the_first_page_lists_the_tables(served: Served, tmp_path: Path) -> None:
    text = served.ask("/").text
    assert "1 table, read-only" in text
    assert "<td class=n>2</td><td class=n>290</td>" in text
    path = tmp_path / "gone.lance"
    lance.write_dataset(pa.table({"a": [1]}), path)
    with serving(path) as server:
        (manifest,) = (path / "_versions").glob("*.manifest")
        manifest.write_bytes(b"nothing of a manifest")
        assert "cannot be read" in server.ask("/").text
        shutil.rmtree(path)
        assert server.ask("/").status == 200
        assert server.ask("/gone.lance/rows").status == 404


def test_a_page_lists_the_versions(served: Served) -> None:
    text = served.ask(f"{TABLE}/log").text
    assert "2 versions" in text
    assert '<span class="bad">−10</span>' in text
    assert '<span class="tag">clean</span>' in text
    assert ">exp</a>" in text
    branch = served.ask(f"{TABLE}/log?ref=exp:latest").text
    assert "version exp:" in branch


def test_rows_are_shown_page_by_page(served: Served) -> None:
    first = served.ask(f"{TABLE}/rows?ref=1")
    assert "rows 0 to 49 of 300" in first.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in first.text
    assert "<td>0.75</td>" in first.text
    last = served.ask(f"{TABLE}/rows?ref=1&start=250")
    assert "rows 250 to 299 of 300" in last.text
    assert "<td class=n>299</td><td>299</td>" in last.text
    assert ">after</a>" not in last.text
    assert "300 rows, none of them from 900 on" in served.ask(f"{TABLE}/rows?ref=1&start=900").text


def test_a_version_stays_the_same_from_page_to_page(served: Served) -> None:
    path = f"{TABLE}/rows?ref=clean"
    found = [one for one in links(served.ask(path), path) if "/rows?" in one]
    assert found
    assert all("ref=2" in one for one in found)


def test_a_page_lists_the_columns(served: Served) -> None:
    text = served.ask(f"{TABLE}/schema").text
    assert "<td>a/b, &lt;i&gt;</td><td>double</td>" in text


def test_a_page_profiles_a_column(served: Served) -> None:
    text = served.ask(f"{TABLE}/describe?ref=1&column=id").text
    assert "300 rows were read" in text
    assert "Assam" not in text
    answer = served.ask(f"{TABLE}/describe?column=idd")
    assert answer.status == 404
    assert "id" in answer.text


def test_a_page_compares_two_versions(served: Served) -> None:
    text = served.ask(f"{TABLE}/diff?old=1&new=2").text
    assert "<li>10 rows deleted</li>" in text
    assert "<li>the same schema</li>" in text
    assert text.count('<span class="bad">−</span>') == 10
    turned = served.ask(f"{TABLE}/diff?old=2&new=1")
    assert (turned.status, turned.text.strip()) == (400, "old=2 is newer than new=1: exchange them")
    assert "<h2>1 → 2</h2>" in served.ask(f"{TABLE}/diff?new=2").text  # the one before


def test_the_report_does_not_say_where_the_table_is(served: Served, teas: Path) -> None:
    text = served.ask(f"{TABLE}/report").text
    assert "<h2>Fragments</h2>" in text
    assert "teas &lt;b&gt;&amp;.lance" in text
    assert "<script" not in text
    assert str(teas.parent) not in text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("rows?ref=9", 404),
        ("rows?ref=none", 404),
        ("rows?ref=%3Cscript%3E", 400),
        ("rows?start=-1", 400),
        ("rows?start=x", 400),
        ("rows?start=99999999999999999999", 400),
        ("log?newest=a", 400),
        ("diff?old=%00", 400),
        ("rows?filter=id+%3C+3", 400),
        ("schema?start=1", 400),
    ],
)
def test_a_query_that_makes_no_sense(served: Served, query: str, status: int) -> None:
    answer = served.ask(f"{TABLE}/{query}")
    assert answer.status == status
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_table_without_rows_has_all_pages(tmp_path: Path) -> None:
    empty = pa.table({"a": pa.array([], pa.int32())})
    lance.write_dataset(empty, tmp_path / "t.lance")
    lance.write_dataset(empty, tmp_path / "t.lance", mode="append")
    with serving(tmp_path / "t.lance") as server:
        for page in PAGES:
            assert server.ask(f"/t.lance/{page}").status == 200, page


def test_a_page_shows_the_rows_that_a_filter_keeps(served: Served) -> None:
    where = "id >= 100 and tea = 'Assam'"
    path = f"{TABLE}/rows?{urlencode({'ref': 1, 'where': where})}"
    text = served.ask(path).text
    assert f'name="where" value="{escape(where)}"' in text
    assert "rows 0 to 49 " in text
    assert "<td class=n>0</td><td>102</td>" in text
    (after,) = (one for one in links(served.ask(path), path) if "start=50" in one)
    last = served.ask(after).text
    assert "rows 50 to 65 " in last  # 102, 105, … 297: 66 rows
    assert ">before</a>" in last
    assert ">after</a>" not in last
    assert ">last</a>" not in last
    nothing = served.ask(f"{TABLE}/rows?where=id+%3C+0")
    assert "no rows" in nothing.text
    assert "no more rows" in served.ask(f"{TABLE}/rows?where=id+%3C+5&start=50").text
    assert "rows 0 to 49 of 290" in served.ask(f"{TABLE}/rows?where=+").text


@pytest.mark.parametrize(
    ("page", "status", "said"),
    [
        ("rows?where=id+%3E", 400, "id >"),
        ("rows?where=ide+%3E+3", 404, "did you mean 'id'?"),
        ("rows?where=%3Cscript%3E", 400, "<script>"),
        ("diff?old=1&key=ide", 404, "no column 'ide'"),
        ("diff?old=1&key=id,,tea", 400, "names separated by commas were expected"),
    ],
)
def test_a_filter_or_key_that_makes_no_sense(
    served: Served, page: str, status: int, said: str, teas: Path
) -> None:
    answer = served.ask(f"{TABLE}/{page}")
    assert (answer.status, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert said in answer.text
    assert str(teas.parent) not in answer.text


def test_a_page_compares_two_versions_by_a_key(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    rows = pa.table({"id": range(200), "tea": ["<b>Assam</b>"] * 200, "a,b": [1] * 200})
    lance.write_dataset(rows, path)
    lance.dataset(path).update({"tea": "'Sencha'"}, where="id < 120")
    lance.dataset(path).delete("id = 150")
    with serving(path) as server:
        without = server.ask("/t.lance/diff?old=1&new=3").text
        assert "<li>0 rows updated</li>" in without
        assert "Changed values" not in without
        assert '<input name="old" value="1"' in without
        by_key = server.ask("/t.lance/diff?old=1&new=3&key=id").text
        assert '<input name="key" value="id"' in by_key
        assert "<li>120 rows updated</li>" in by_key
        assert "<li>1 row deleted</li>" in by_key
        assert "<li>tea: 120 values</li>" in by_key
        before, after = '<span class="bad">&lt;b&gt;Assam&lt;/b&gt;</span>', "Sencha</span>"
        assert by_key.count(before) == by_key.count(after) == 100
        assert "<p>20 more values not shown</p>" in by_key
        quoted = server.ask("/t.lance/diff?old=1&key=id,%22a,b%22").text
        assert "<li>120 rows updated</li>" in quoted
        same = server.ask("/t.lance/diff?old=2&new=3&key=id").text
        assert "<h2>Changed values</h2><p>none</p>" in same
        ambiguous = server.ask("/t.lance/diff?old=1&new=2&key=tea")
        assert ambiguous.status == 400
        assert "changed rows have the key" in ambiguous.text
