"""Dashboards in a browser: pinned by mouse, ordered by mouse and by keyboard, live, and not all at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from sluice.storage.tables.dashboards import MOST_CHARTS, Dashboard, Dashboards, PinnedChart
from sluice_lab.browser.pages import settled, until
from tests.browser.filled import HOSTILE
from tests.browser.visits import expensive, rested, visit

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.site import Site

pytestmark = pytest.mark.slow

BOARDS = "/console/dashboards"
DATA = "/console/charts/data"
LAST = PinnedChart("Last", "task=sample&metric=count&last=6h")
#: As in board.js and rests.js.
AT_ONCE, LONGEST_REST_MS = 3, 60_000
CLIENTS = PinnedChart("Clients", "task=sample&metric=count&split=client&last=all")


def board(site: Site, *charts: PinnedChart, name: str = "Night") -> Dashboard:
    """A new dashboard of the site's user."""
    return Dashboards(site.database).create(HOSTILE, name, charts)


def stored(site: Site, number: int) -> list[str]:
    """The titles of a dashboard's charts."""
    return [title for title, _ in Dashboards(site.database).get(number, HOSTILE).charts]


def tile(page: Page, title: str) -> Locator:
    return page.locator(".tile").filter(has=page.get_by_role("heading", name=title, exact=True))


def titles(page: Page) -> list[str]:
    return [each.input_value() for each in page.locator("#rows input[name=title]").all()]


def requests(page: Page) -> list[tuple[float, float]]:
    """When each request for a chart's data began and ended, in ms, as the browser timed them."""
    timed = (
        "performance.getEntriesByType('resource').map(each => [each.name, each.startTime, each.responseEnd])"
    )
    return [(begin, end) for name, begin, end in page.evaluate(timed) if DATA in name]


def at_once(spans: list[tuple[float, float]]) -> int:
    """The largest number of requests that were on their way at one time."""
    return max(sum(begin <= start < end for begin, end in spans) for start, _ in spans)


def test_a_chart_is_pinned_by_mouse_as_it_is_shown(page: Page, site: Site) -> None:
    visit(page, "/console/charts?task=sample&last=all")
    page.get_by_label("path").check()
    until(page, "document.getElementById('pin').href.includes('split=path')")
    page.get_by_role("link", name="Pin to a dashboard").click()
    page.get_by_label("Its title").fill("Paths")
    page.get_by_label("Pin it to").select_option(label="a new dashboard")
    page.get_by_label("Name of the new dashboard").fill("Night")
    page.get_by_role("button", name="Pin it").click()
    page.wait_for_url(f"**{BOARDS}/*did=pinned*")
    settled(page)
    tile(page, "Paths").locator(".legend button").nth(1).wait_for()
    tile(page, "Paths").get_by_role("link").click()
    settled(page)
    assert page.get_by_label("path").is_checked()


def test_a_tile_is_live_and_its_picture_stays(page: Page, site: Site) -> None:
    made = board(site, LAST, CLIENTS)
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if "/events" in request.url else None)
    page.clock.install()
    visit(page, f"{BOARDS}/{made.id}")
    page.locator("#live", has_text="live").wait_for()
    page.evaluate("window.same = document.querySelector('.plot canvas')")
    site.count(37)
    rested(page, tile(page, "Last").locator(".legend", has_text="37"))
    assert page.evaluate("window.same === document.querySelector('.plot canvas')")
    assert len(streams) == 1


def test_charts_in_view_are_asked_for_a_few_at_a_time_and_others_when_they_come_into_view(
    page: Page, site: Site
) -> None:
    made = board(site, *[LAST] * (MOST_CHARTS - 1), CLIENTS)
    page.set_viewport_size({"width": 1000, "height": 700})
    visit(page, f"{BOARDS}/{made.id}")
    assert 2 <= len(requests(page)) < MOST_CHARTS
    assert at_once(requests(page)) <= AT_ONCE
    tile(page, "Clients").scroll_into_view_if_needed()
    tile(page, "Clients").locator(".legend button").first.wait_for()
    assert at_once(requests(page)) <= AT_ONCE


def test_after_a_commit_they_are_asked_for_in_turn_and_seldom_if_they_cost_much(
    page: Page, site: Site
) -> None:
    made = board(site, LAST, LAST)
    page.clock.install()
    page.route(f"**{DATA}*", expensive)
    visit(page, f"{BOARDS}/{made.id}")
    page.locator("#live", has_text="live").wait_for()
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if DATA in request.url else None)
    site.count(37)
    changed = page.locator(".legend", has_text="37")
    changed.wait_for()
    page.clock.run_for(LONGEST_REST_MS - 1_000)
    assert (len(asked), changed.count()) == (1, 1)
    page.clock.run_for(2_000)
    changed.nth(1).wait_for()
    assert len(asked) == 2


def test_with_the_server_away_a_tile_keeps_its_picture_and_comes_back(page: Page, site: Site) -> None:
    made = board(site, LAST)
    page.clock.install()
    visit(page, f"{BOARDS}/{made.id}")
    page.locator("#live", has_text="live").wait_for()
    page.route(f"**{DATA}*", lambda route: route.abort())
    site.count(37)
    rested(page, page.locator(".trouble", has_text="what is shown is older"))
    assert page.locator(".legend button").count() == 1
    page.unroute(f"**{DATA}*")
    rested(page, page.locator(".legend", has_text="37"))  # nothing else is counted: it asks by itself
    assert page.locator(".trouble").inner_text() == ""


def test_a_chart_that_is_refused_says_why_and_the_others_are_drawn(page: Page, site: Site) -> None:
    made = board(
        site, PinnedChart("Refused", "task=sample&metric=nothing"), PinnedChart("Gone", "task=gone"), LAST
    )
    visit(page, f"{BOARDS}/{made.id}")
    assert "has no 'nothing'" in tile(page, "Refused").inner_text()
    assert "There is no task gone now" in tile(page, "Gone").inner_text()
    assert tile(page, "Last").locator(".legend button").count() == 1


def test_a_tile_is_read_by_keyboard_and_as_a_table(page: Page, site: Site) -> None:
    made = board(site, LAST, CLIENTS)
    visit(page, f"{BOARDS}/{made.id}")
    tile(page, "Last").locator(".plot").focus()
    tile(page, "Last").locator(".plot").dispatch_event("keydown", {"key": "End", "ctrlKey": True})
    assert page.locator("#reader").inner_text() == ""
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#reader").inner_text().startswith("2015-05-20 00:00:00, open, all count ")
    tile(page, "Last").locator("summary").focus()
    page.keyboard.press("Enter")
    rows = tile(page, "Last").locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == 6
    tile(page, "Last").locator(".plot").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/charts?{LAST.address}")


def test_charts_are_ordered_renamed_and_removed_by_keyboard_alone(page: Page, site: Site) -> None:
    made = board(
        site,
        PinnedChart("A", "task=sample"),
        PinnedChart("B", "task=sample"),
        PinnedChart("C", "task=sample"),
    )
    visit(page, f"{BOARDS}/{made.id}/edit")
    later = page.get_by_role("button", name="Later: A")
    later.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert titles(page) == ["B", "C", "A"]
    assert later.evaluate("each => each === document.activeElement")
    assert page.locator("#said").inner_text() == "A: 3 of 3"
    page.get_by_label("Remove C").focus()
    page.keyboard.press("Space")
    page.locator("#rows input[name=title]").first.focus()
    page.keyboard.press("End")
    page.keyboard.type("ee")
    page.keyboard.press("Enter")  # saves
    page.wait_for_url("**?did=saved")
    assert stored(site, made.id) == ["Bee", "A"]


def test_a_chart_is_dragged_to_another_place(page: Page, site: Site) -> None:
    made = board(
        site,
        PinnedChart("A", "task=sample"),
        PinnedChart("B", "task=sample"),
        PinnedChart("C", "task=sample"),
    )
    visit(page, f"{BOARDS}/{made.id}/edit")
    begin = page.locator(".grip").first.bounding_box()
    end = page.locator("#rows li").nth(2).bounding_box()
    assert begin
    assert end
    page.mouse.move(begin["x"] + 5, begin["y"] + 5)
    page.mouse.down()
    page.mouse.move(begin["x"] + 5, end["y"] + end["height"] - 2, steps=12)
    page.mouse.up()
    assert titles(page) == ["B", "C", "A"]
    page.mouse.move(begin["x"] + 5, begin["y"])  # it was let go
    assert titles(page) == ["B", "C", "A"]
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**?did=saved")
    assert stored(site, made.id) == ["B", "C", "A"]


def test_of_two_at_once_the_second_is_told_and_goes_on_with_what_the_first_did(
    page: Page, site: Site
) -> None:
    made = board(site, LAST)
    visit(page, f"{BOARDS}/{made.id}/edit")
    other = page.context.new_page()
    visit(other, f"{BOARDS}/{made.id}/edit")
    for each, name in ((other, "First"), (page, "Second")):
        each.get_by_label("Name").fill(name)
        each.get_by_role("button", name="Save").click()
    page.get_by_role("alert").filter(has_text="'First' was changed elsewhere").wait_for()
    assert page.get_by_label("Name").input_value() == "First"
    page.get_by_label("Name").fill("Second")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Second").wait_for()


def test_a_viewer_copies_a_shared_dashboard_and_deletes_the_copy_after_a_question(
    page: Page, site: Site
) -> None:
    site.login.as_("viewer", "bob")
    visit(page, BOARDS)
    page.get_by_role("link", name="Board", exact=True).click()
    assert page.get_by_role("link", name="Edit").count() == 0
    page.get_by_role("button", name="Duplicate").click()
    page.get_by_text("This copy is yours").wait_for()
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Delete Board").click()
    page.get_by_text("You have none yet").wait_for()
