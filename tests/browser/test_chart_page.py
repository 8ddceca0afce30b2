"""A chart in a browser: by mouse, by keyboard, live, with the network cut, and inside Airflow's frame."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.site import HOURS
from tests.browser.test_pages import settled, until, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.site import Site

pytestmark = pytest.mark.slow

CHART = "/console/charts?task=sample"
ALL = f"{CHART}&last=all"


def wishes(page: Page) -> dict[str, list[str]]:
    """What the address asks for."""
    return parse_qs(urlsplit(page.url).query)


def values(page: Page) -> list[str]:
    """What the first legend shows: each series with its value."""
    return [
        text.replace("\n", " ") for text in page.locator(".legend").first.locator("button").all_inner_texts()
    ]


def mark(page: Page) -> None:
    """So that `marked` is false after a reload or with a new plot."""
    page.evaluate("window.same = document.querySelector('.plot canvas')")


def marked(page: Page) -> bool:
    return bool(page.evaluate("window.same === document.querySelector('.plot canvas')"))


def listening(page: Page) -> None:
    page.locator("#live", has_text="live").wait_for()


def drag(page: Page, begin: float, end: float) -> None:
    """Draw over a stretch of the plot, in shares of its width."""
    box = page.locator(".u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * begin, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, box["y"] + 60, steps=5)
    page.mouse.up()


def test_a_stretch_is_zoomed_into_and_the_way_back_shows_what_was_before(page: Page) -> None:
    visit(page, ALL)
    drag(page, 0.25, 0.5)
    until(page, "location.search.includes('since')")
    settled(page)
    since, until_ = wishes(page)["since"][0], wishes(page)["until"][0]
    assert ("2015-05-17T17" < since < "2015-05-17T19", "2015-05-18T11" < until_ < "2015-05-18T13") == (
        True,
        True,
    )
    page.reload()
    settled(page)
    assert (
        page.locator("#since").input_value()
        == "2015-05-17T20:00:00"[:11] + page.locator("#since").input_value()[11:]
    )
    page.go_back()
    until(page, "!location.search.includes('since')")
    settled(page)
    assert page.locator("#since").input_value() == "2015-05-17T02:00"


def test_the_form_changes_the_picture_and_the_address_without_a_reload(page: Page) -> None:
    visit(page, ALL)
    page.evaluate("window.page = 1")
    page.get_by_label("path").check()
    page.get_by_label("The largest").fill("2")
    page.get_by_label("p50").check()
    page.get_by_label("As", exact=True).select_option("stack")
    until(page, "document.querySelectorAll('.panel').length === 2 && location.search.includes('stack')")
    settled(page)
    assert len(values(page)) == 3
    assert values(page)[-1].startswith("(other)")
    assert wishes(page)["metric"] == ["count", "p50"]
    assert (wishes(page)["split"], wishes(page)["top"]) == (["path"], ["2"])
    page.go_back()
    until(page, "document.getElementById('shape').value === 'line'")
    assert page.evaluate("window.page") == 1


def test_a_chart_is_read_by_keyboard_alone(page: Page) -> None:
    visit(page, ALL)
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    said = page.locator("#reader").inner_text()
    assert said.startswith("2015-05-20 00:00:00, open, all count ")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "point-heading"
    assert "2015-05-20 00:00:00" in page.locator("#point").inner_text()
    page.keyboard.press("Tab")
    link = page.evaluate("document.activeElement.href")
    assert parse_qs(urlsplit(link).query) == {"task": ["sample"], "period": ["2015-05-19T22:00:00.000Z"]}
    page.locator(".plot").first.focus()
    page.keyboard.press("+")
    until(page, "location.search.includes('since')")


def test_a_single_period_is_read_by_keyboard_too(page: Page) -> None:
    visit(page, f"{CHART}&last=1h")
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    assert page.locator("#reader").inner_text().startswith("2015-05-20 01:00:00, open, all count ")


def test_who_may_only_read_is_not_offered_the_lines(page: Page, site: Site) -> None:
    site.login.as_("viewer")
    visit(page, ALL)
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert page.locator("#point td").count() > 0
    assert page.locator("#point a").count() == 0


def test_the_crosshair_is_one_over_all_metrics(page: Page) -> None:
    visit(page, f"{ALL}&metric=count&metric=sum")
    page.locator(".u-over").nth(1).hover(position={"x": 300, "y": 40})
    cursors = [page.locator(".u-cursor-x").nth(own) for own in (0, 1)]
    places = [each.evaluate("each => each.getBoundingClientRect().x") for each in cursors]
    assert places[0] == pytest.approx(places[1], abs=1)
    assert places[0] > 300


def test_a_new_point_comes_with_the_commit_and_the_picture_stays(page: Page, site: Site) -> None:
    visit(page, f"{CHART}&last=6h")
    listening(page)
    mark(page)
    site.count(37)
    page.locator(".legend", has_text="37").wait_for()
    assert marked(page)
    site.count(38)
    page.locator(".legend", has_text="38").wait_for()
    assert page.locator("#live").inner_text() == f"live · as of commit {site.layers.head}"


def test_without_events_it_asks_now_and_then(page: Page, site: Site) -> None:
    site.deaf = True
    page.clock.install()
    visit(page, f"{CHART}&last=6h")
    page.locator("#live", has_text="asks every 10 s").wait_for()
    site.count(37)
    page.clock.run_for(11_000)
    page.locator(".legend", has_text="37").wait_for()


def test_with_the_network_cut_the_picture_stays_and_says_so_until_it_is_back(page: Page, site: Site) -> None:
    visit(page, f"{CHART}&last=6h")
    listening(page)
    before = values(page)
    page.route("**/charts/data*", lambda route: route.abort())
    site.count(37)
    page.locator("#trouble", has_text="The server does not answer").wait_for()
    assert values(page) == before
    page.unroute("**/charts/data*")
    site.count(38)
    page.locator(".legend", has_text="38").wait_for()
    assert page.locator("#trouble").inner_text() == ""


def test_a_wish_that_cannot_be_met_says_why_and_the_picture_stays(page: Page) -> None:
    visit(page, ALL)
    before = values(page)
    page.locator("#where").fill("nowhere=1")
    page.keyboard.press("Enter")
    page.locator("#trouble", has_text="has no 'nowhere'").wait_for()
    assert values(page) == before


def test_a_series_is_hidden_and_shown_again(page: Page) -> None:
    visit(page, f"{ALL}&split=client")
    button = page.locator(".legend button").first
    button.focus()
    page.keyboard.press("Enter")
    assert page.locator(".legend button").first.get_attribute("aria-pressed") == "false"
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "false"
    page.keyboard.press("Enter")
    assert page.locator(".legend button").first.get_attribute("aria-pressed") == "true"


def test_the_table_has_what_the_chart_has(page: Page) -> None:
    visit(page, f"{ALL}&split=client")
    page.locator("#table summary").click()
    rows = page.locator("#table tbody tr").all_inner_texts()
    assert len(rows) == HOURS - 3
    assert rows[0].split("\t")[0] == "2015-05-20 01:00:00"
    assert {row.split("\t")[-1] for row in rows} == {"open", "superseded", "final"}


def test_numbers_and_picture_are_saved(page: Page) -> None:
    visit(page, f"{ALL}&split=client")
    with page.expect_download() as saved:
        page.get_by_text("Picture (PNG)").click()
    assert saved.value.suggested_filename == "sample.png"
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as saved:
        page.get_by_text("Numbers (CSV)").click()
    lines = saved.value.path().read_text().splitlines()
    assert lines[0] == "period,client,count,state"
    assert len(lines) > HOURS


def test_in_airflows_frame_it_works_and_tells_when_its_address_changes(page: Page) -> None:
    page.goto("/frame")
    frame = page.frames[1]
    frame.wait_for_selector(".legend button")
    page.evaluate("document.querySelector('iframe').addEventListener('load', () => (window.told = true))")
    frame.get_by_label("sum", exact=True).check()
    until(page, "window.told")
    assert "metric=sum" in frame.url
    assert page.said == []  # type: ignore[attr-defined]
