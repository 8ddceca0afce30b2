"""The page about the platform in a browser: by itself red and green, with the network cut, by keyboard."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from sluice_lab.browser.pages import until
from tests.browser.visits import violations, visit
from tests.monitoring.flow.made import healthy, nothing, seen

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.site import Site

pytestmark = pytest.mark.slow

PAGE = "/console/platform"
KAFKA, TOPICS = "#daemon-kafka", "#box-topics"


def state(page: Page, box: str, word: str) -> None:
    """Wait until a box says its state."""
    page.locator(f"{box} .badge", has_text=word).wait_for()


def test_a_box_turns_red_and_green_by_itself_and_the_reader_is_not_disturbed(page: Page, site: Site) -> None:
    site.seen = seen()
    visit(page, PAGE)
    state(page, KAFKA, "works")
    page.locator("#agents summary").click()
    page.locator("#box-speed a").focus()
    page.evaluate("window.same = document.activeElement")
    green = page.locator(KAFKA).evaluate("each => getComputedStyle(each).backgroundColor")
    site.seen = seen(daemons=healthy(kafka="Connection refused"))
    state(page, KAFKA, "broken")
    state(page, TOPICS, "broken")
    assert "Connection refused" in page.locator(TOPICS).inner_text()
    assert page.locator(KAFKA).evaluate("each => getComputedStyle(each).backgroundColor") != green
    assert page.locator("[role=status]", has_text="1 thing hurts").count() == 1
    assert page.evaluate("window.same === document.activeElement")
    assert page.evaluate("document.getElementById('agents').open")
    site.seen = seen()
    state(page, KAFKA, "works")
    page.locator("[role=status]", has_text="All of it works").wait_for()


def test_with_the_network_cut_the_picture_stays_and_says_so_until_it_is_back(page: Page, site: Site) -> None:
    site.seen = seen()
    visit(page, PAGE)
    page.route("**/platform/now", lambda route: route.abort())
    page.locator("#reach", has_text="The server does not answer. This is the picture of ").wait_for()
    assert "works" in page.locator(KAFKA).inner_text()
    page.unroute("**/platform/now")
    said = '<p class="lead">PostgreSQL does not answer</p>'
    page.route("**/platform/now", lambda route: route.fulfill(status=503, body=said))
    page.locator("#reach", has_text="The server answers: PostgreSQL does not answer. This is").wait_for()
    site.seen = seen(daemons=healthy(kafka="Connection refused"))
    page.unroute("**/platform/now")
    state(page, KAFKA, "broken")
    until(page, "document.getElementById('reach').textContent === ''")


def test_a_session_that_ended_leads_to_the_log_in(page: Page, site: Site) -> None:
    visit(page, PAGE)
    site.login.name = None
    link = page.locator("#reach a", has_text="Log in")
    link.wait_for()
    assert link.get_attribute("href") == PAGE


def test_what_to_do_is_reached_by_keyboard(page: Page) -> None:
    visit(page, PAGE)
    page.get_by_role("link", name="What to do: A failed reconciliation").focus()
    page.keyboard.press("Enter")
    page.locator("#do-a-failed-reconciliation .runbook").wait_for(state="visible")
    assert page.url.endswith("#do-a-failed-reconciliation")


def test_a_run_is_opened_by_airflow_and_not_in_the_frame(page: Page, site: Site) -> None:
    site.seen = seen()
    page.goto("/frame")
    frame = page.frames[1]
    frame.goto(PAGE)
    frame.locator("#box-archive a[data-airflow]").click()
    page.wait_for_url("**/dags/archive/runs/scheduled__archive")


def test_ages_grow_with_the_clock(page: Page, site: Site) -> None:
    site.seen = seen()
    now = time.time()
    page.clock.set_fixed_time(now)
    visit(page, PAGE)
    page.route("**/platform/*", lambda route: route.abort())
    commit = page.locator("#box-speed time[data-age]")
    assert commit.inner_text() == "2 s ago"
    page.clock.set_fixed_time(now + 118)
    expect(commit).to_have_text("2 min ago")


@pytest.mark.parametrize(("theme", "empty"), [("light", False), ("dark", True)])
def test_a_platform_that_is_well_or_never_ran_breaks_no_rule(
    page: Page, site: Site, theme: str, empty: bool
) -> None:
    site.seen = nothing() if empty else seen()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
    visit(page, PAGE)
    assert violations(page) == []
