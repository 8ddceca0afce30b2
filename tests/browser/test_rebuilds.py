"""Counting again in a browser: planned and asked for by keyboard, in each theme and at 390 px."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from sluice.monitoring.flow.asks import Said
from sluice.storage.tables.alerts import Alert
from sluice.storage.tables.rebuilds import Rebuilds
from tests.browser.filled import HOSTILE
from tests.browser.people import tab_to
from tests.browser.visits import violations, visit
from tests.monitoring.flow.made import AT, seen

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.site import Site

pytestmark = pytest.mark.slow

TASK, TOPIC = "/console/statistics/task/sample", "/console/topics/logs/rebuilds"
NEXT = date(2015, 5, 18)


def fill_in(page: Page, day: date) -> None:
    """The first day, by keyboard, as the field of the browser in English takes it: month, day, year."""
    tab_to(page, "First day (UTC)")
    page.keyboard.type(f"{day:%m%d%Y}")


@pytest.mark.parametrize("path", [TASK, TOPIC])
def test_by_keyboard_it_is_planned_in_each_theme_and_width_and_asked_for(
    page: Page, site: Site, path: str
) -> None:
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    visit(page, path)
    fill_in(page, NEXT)
    tab_to(page, "What would be counted")
    page.keyboard.press("Enter")
    page.locator("#plan:focus").wait_for()
    assert "1 periods, 1 days, 5,000 lines" in page.locator("#plan").inner_text()
    assert page.get_by_label("First day (UTC)").input_value() == str(NEXT)
    broken = {"light": violations(page)}
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    broken["dark"] = violations(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    broken["narrow"] = violations(page)
    assert broken == {"light": [], "dark": [], "narrow": []}
    page.get_by_role("button", name="Count again").focus()
    page.keyboard.press("Enter")
    page.get_by_role("status").filter(has_text="The rebuild was asked for").wait_for()
    asked = Rebuilds(site.database).newest("logs", 1)[0]
    assert (asked.first_day, asked.last_day, asked.requested_by) == (NEXT, None, site.login.name)


def test_a_refused_form_says_why_where_the_reader_is_led(page: Page) -> None:
    visit(page, TASK)
    page.get_by_label("First day (UTC)").fill("2016-01-01")
    page.get_by_role("button", name="Count again").click()
    said = page.locator("[role=alert]:focus")
    said.wait_for()
    assert "no state of days from 2016-01-01 to the last" in said.inner_text()
    assert page.get_by_label("First day (UTC)").input_value() == "2016-01-01"
    assert violations(page) == []


def test_a_rebuild_goes_on_before_the_readers_eyes_until_it_is_over(page: Page, site: Site) -> None:
    page.clock.install()
    book = Rebuilds(site.database)
    visit(page, TOPIC)
    shown = page.locator("#rebuilds")
    assert "1 of 2" in shown.inner_text()
    (number,) = (each.id for each in book.unfinished("logs"))
    book.stage(number, NEXT, [], 1_000)
    with page.expect_response("**/parts/rebuilds/*"):
        page.clock.run_for(2_500)
    shown.filter(has_text="2 of 2").wait_for()
    assert page.locator("#rebuilds img").count() == 0  # what is hostile is text


def test_viewers_see_how_far_it_is_and_no_form(page: Page, site: Site) -> None:
    site.login.as_("viewer")
    for path in (TASK, TOPIC):
        visit(page, path)
        assert "1 of 2" in page.locator("#rebuilds").inner_text()
        assert page.get_by_role("button", name="Count again").count() == 0


def test_an_alert_of_lost_state_leads_to_what_is_counted_again(page: Page, site: Site) -> None:
    site.seen = seen(alerts=Said([Alert("state", "logs: task 1v1", HOSTILE, AT)]))
    visit(page, "/console/platform")
    page.get_by_role("link", name="What is counted again").click()
    page.get_by_role("heading", name="Count logs again").wait_for()
    assert "Set aside by damage" in page.locator("#rebuilds").inner_text()
