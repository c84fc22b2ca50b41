"""The pages of the server in a real browser: narrow and wide, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from serving import Served

TABLE = "teas%20%3Cb%3E%26.lance"
PAGES = (
    *("", "log", "schema", "rows", "rows?where=id+%3E+5", "describe", "diff?old=1"),
    *("diff?old=1&key=id", "report"),
)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_pages_fit_and_nothing_is_complained_of(
    browser: Any, served: Served, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown, said = context.new_page(), []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    for page in PAGES:
        shown.goto(f"{served.url}{TABLE}/{page}")
        assert said == []  # such as a style that the policy refuses
        assert shown.evaluate("document.documentElement.scrollWidth") == width, page
        assert shown.locator("nav a").first.is_visible()
    shown.locator("nav a", has_text="Rows").click()
    shown.locator("a", has_text="after").click()
    assert "rows 50 to 99 of 290" in shown.locator("main").inner_text()
    shown.get_by_label("Rows where").fill("id > 200 and tea = 'Assam'")
    shown.get_by_role("button", name="Show").click()
    assert "rows 0 to 29" in shown.locator("main").inner_text()  # 201, 204, … 288
    shown.goto(f"{served.url}{TABLE}/diff?old=1")
    shown.get_by_label("Rows told apart by").fill("id")
    shown.get_by_role("button", name="Compare").click()
    assert "Changed values" in shown.locator("main").inner_text()
    assert said == []
    context.close()
