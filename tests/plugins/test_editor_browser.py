"""The editor in a browser with scripts: by mouse, by keyboard, and with the server away."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect, sync_playwright

from sluice.tasks.store import TaskStore
from tests.engine.samples import line, spec
from tests.plugins.served import served
from tests.plugins.test_api import Login, app, client, database, login

__all__ = ["app", "client", "database", "login"]  # the fixtures of test_api

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
LINES = [line(status="404"), line(path="/blog/a"), line(path="/shop", size="-")]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no browser: CHROMIUM names one"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def address(client: TestClient, login: Login, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from sluice_airflow.console import editor

    monkeypatch.setattr(editor, "sample", lambda settings, topic, count: LINES)
    login.as_("user")
    with served(client.app) as url:
        yield f"{url}/console"


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    said: list[str] = []
    opened.on("pageerror", lambda error: said.append(str(error)))
    yield opened
    context.close()
    assert said == []


def test_a_statistic_by_mouse_alone_but_for_its_name(page: Page, address: str, database: sa.Engine) -> None:
    page.goto(f"{address}/statistics")
    page.get_by_role("link", name="New statistic").click()
    page.locator("#pieces").get_by_role("button", name="404", exact=True).click()
    page.get_by_role("button", name="Count by it").first.click()
    expect(page.locator("#dimensions-0-name")).to_have_value("status")
    expect(page.locator("#results")).to_contain_text("3 of 3 lines are counted")
    page.locator("#name").fill("hits")
    expect(page.locator("#yaml")).to_have_value(containing("name: hits"))
    page.get_by_role("button", name="Review and save").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Saved")
    assert TaskStore(database).get("hits").spec.dimensions[0].extract.field == "status"


def containing(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


def test_pieces_are_reached_by_arrow_keys(page: Page, address: str) -> None:
    page.goto(f"{address}/statistics/new")
    page.locator("#pieces button").first.focus()
    for key in ("ArrowDown", "End", "Home", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator("#pieces button[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    expect(page.locator("#made-of")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#fields")).to_contain_text("Dimension 1")


def test_the_draft_is_tried_while_it_is_written_and_the_focus_stays(page: Page, address: str) -> None:
    page.goto(f"{address}/statistics/new")
    page.get_by_role("button", name="Add a dimension").click()
    field = page.locator("#dimensions-0-extract-field")
    field.click()
    field.press_sequentially("status")
    expect(page.locator("#step-dimensions-0")).to_contain_text("3 kept")
    expect(field).to_be_focused()
    page.locator("#yaml").fill("- name: typed\n  topic: logs\n  period: 5m\n  metrics: [count]\n")
    expect(page.locator("#period")).to_have_value("5m")
    expect(page.locator("#name")).to_have_value("typed")
    page.locator("#period").fill("5x")
    expect(page.locator("#wrong-period")).not_to_be_empty()
    expect(page.locator("#period")).to_have_attribute("aria-invalid", "true")


def test_what_was_written_survives_a_server_that_is_away(page: Page, address: str) -> None:
    page.goto(f"{address}/statistics/new")
    page.route("**/statistics/draft", lambda route: route.abort())
    page.locator("#name").fill("hits")
    expect(page.locator("#state")).to_contain_text("What you wrote is still here")
    page.unroute("**/statistics/draft")
    page.locator("#period").fill("1h")
    expect(page.locator("#state")).to_be_empty()
    expect(page.locator("#name")).to_have_value("hits")


@pytest.mark.parametrize(
    "path", ["/statistics", "/statistics/new", "/statistics/task/hits", "/quality", "/dead"]
)
@pytest.mark.parametrize("width", [320, 1280])
def test_no_page_is_wider_than_its_window(
    page: Page, address: str, database: sa.Engine, path: str, width: int
) -> None:
    TaskStore(database).apply([spec(name="hits")], "ann")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{address}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
