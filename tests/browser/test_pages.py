"""Every page in a browser: for everyone, in both themes, on a narrow screen, without errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from sluice_lab.browser.pages import settled, until
from tests.browser.visits import MISSING, PAGES, expensive, rested, seen_again, unseen, violations, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

    from tests.browser.site import Site

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_for_everyone_in_each_theme_and_width_and_loads_only_from_here(
    page: Page, site: Site, path: str
) -> None:
    """One visit serves all: a page of a site of its own takes seconds."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    visit(page, path)
    assert [each for each in asked if not each.startswith((site.url, "blob:", "data:"))] == []
    assert page.said == [] or path == MISSING  # type: ignore[attr-defined]
    assert page.locator("img[src=x]").count() == 0

    for details in page.locator("details:visible").all():
        details.locator("summary").click()
    broken = {"light": violations(page)}
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    broken["dark"] = violations(page)
    page.set_viewport_size({"width": 320, "height": 640})
    visit(page, path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    broken["narrow"] = violations(page)
    assert broken == {"light": [], "dark": [], "narrow": []}


def test_the_rules_are_those_that_a_bad_page_breaks(page: Page) -> None:
    visit(page, "/console/")
    page.evaluate("document.querySelector('main').append(document.createElement('img'))")
    assert [rule for rule, _ in violations(page)] == ["image-alt"]


def test_a_page_has_the_theme_that_airflow_has(page: Page) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    visit(page, "/console/")
    light = page.evaluate(paper)
    other = page.context.new_page()  # as Airflow's own page, which shares the storage
    other.goto("/console/nowhere")
    other.evaluate("localStorage.setItem('theme', 'dark')")
    until(page, f"{paper} !== '{light}'")
    visit(page, "/console/charts")
    assert page.evaluate(paper) != light


def test_times_are_in_the_readers_zone_which_the_page_names(page: Page) -> None:
    visit(page, "/console/")
    assert "Europe/Berlin" in page.locator("footer").inner_text()
    assert page.locator("[data-task=sample] time").inner_text() == "2015-05-20 01:00:00"  # 23:00 in UTC


def test_newest_numbers_follow_the_commits(page: Page, site: Site) -> None:
    page.clock.install()
    with page.expect_response("**/events?*"):  # it listens
        visit(page, "/console/")
    page.evaluate("window.same = true")
    site.count(31)
    rested(page, page.locator("[data-task=sample] .figure", has_text="31"))
    assert page.evaluate("window.same")


def test_newest_numbers_are_asked_for_when_somebody_sees_them(page: Page, site: Site) -> None:
    page.clock.install()
    asked: set[Request] = set()
    page.on("request", lambda each: asked.add(each) if "/parts/newest" in each.url else None)
    page.on("requestfinished", lambda each: asked.discard(each))  # noqa: PLW0108 - Playwright marks what it calls
    with page.expect_response("**/events?*"):
        visit(page, "/console/")
    other = page.context.new_page()
    other.clock.install()
    with other.expect_response("**/events?*"):
        visit(other, "/console/")
    unseen(page)
    while asked:  # what was asked for before may be answered later
        page.wait_for_timeout(20)
    site.count(31)
    rested(other, other.locator("[data-task=sample] .figure", has_text="31"))
    page.clock.run_for(60_000)
    page.wait_for_timeout(200)
    assert page.locator("[data-task=sample] .figure", has_text="31").count() == 0
    seen_again(page)
    rested(page, page.locator("[data-task=sample] .figure", has_text="31"))


def test_newest_numbers_that_cost_much_are_asked_for_seldom(page: Page, site: Site) -> None:
    page.clock.install()
    page.route("**/parts/newest*", expensive)
    with page.expect_response("**/events?*"):
        visit(page, "/console/")
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=30))
    site.count(31)
    rested(page, page.locator("[data-task=sample] .figure", has_text="31"))  # if it has asked before
    site.count(32)
    page.wait_for_timeout(500)
    changed = page.locator("[data-task=sample] .figure", has_text="32")
    assert changed.count() == 0
    page.clock.run_for(60_000)
    changed.wait_for()


def test_a_backfill_goes_on_before_the_readers_eyes_until_they_are_logged_out(page: Page, site: Site) -> None:
    page.clock.install()
    visit(page, "/console/statistics/task/sample")
    page.evaluate("window.same = document.querySelector('#backfills table')")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/backfills/" in request.url else None)
    for _ in range(2):
        with page.expect_response("**/parts/backfills/*"):
            page.clock.run_for(2_500)
    assert page.evaluate("window.same === document.querySelector('#backfills table')")
    site.login.name = None
    with page.expect_response("**/parts/backfills/*"):
        page.clock.run_for(2_500)
    asked.clear()
    page.wait_for_timeout(200)
    page.clock.run_for(20_000)
    assert asked == []
    assert page.locator("#backfills table").count() == 1


def test_the_keyboard_reaches_the_content_first(page: Page) -> None:
    visit(page, "/console/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_the_first_page_is_small(page: Page) -> None:
    """As it comes over the wire without compression; Airflow's server compresses it."""
    sizes: list[int] = []
    page.on(
        "response", lambda answer: sizes.append(len(answer.body())) if "/events" not in answer.url else None
    )
    page.goto("/console/")
    settled(page)
    assert sum(sizes) < 200 << 10
