"""A chart in a browser: by mouse, by keyboard, live, with the network cut, and inside Airflow's frame."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from sluice_lab.browser.pages import settled, until
from tests.browser.site import HOURS
from tests.browser.test_dashboards import LONGEST_REST_MS
from tests.browser.visits import expensive, rested, seen_again, unseen, visit

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


def live(page: Page, address: str) -> None:
    """Open a live chart whose clock the test moves."""
    page.clock.install()
    visit(page, address)
    listening(page)


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
    wanted = {"task": ["sample"], "version": ["1"], "period": ["2015-05-19T22:00:00.000Z"]}
    assert parse_qs(urlsplit(link).query) == wanted
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
    live(page, f"{CHART}&last=6h")
    mark(page)
    site.count(37)
    rested(page, page.locator(".legend", has_text="37"))
    assert marked(page)
    site.count(38)
    rested(page, page.locator(".legend", has_text="38"))
    assert page.locator("#live").inner_text() == f"live · as of commit {site.layers.head}"
    assert page.locator("[role=status]").all_inner_texts() == ["live"]  # commits are not read out


def test_a_button_of_the_legend_stays_while_numbers_change(page: Page, site: Site) -> None:
    live(page, f"{CHART}&last=6h")
    page.evaluate("window.same = document.querySelector('.legend button')")
    site.count(37)
    rested(page, page.locator(".legend", has_text="37"))
    assert page.evaluate("window.same === document.querySelector('.legend button')")
    page.get_by_role("checkbox", name="client").check()
    until(page, "document.querySelectorAll('.legend button').length > 1")
    assert not page.evaluate("window.same.isConnected")


def asked_at_a_commit(page: Page, other: Page, site: Site) -> list[str]:
    """What the page asks for at a commit, which the other page shows."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/charts/data" in request.url else None)
    site.count(37)
    rested(other, other.locator(".legend", has_text="37"))
    page.clock.run_for(60_000)
    page.wait_for_timeout(200)
    return asked


def test_what_nobody_sees_is_not_asked_for_until_somebody_does(page: Page, site: Site) -> None:
    live(page, f"{CHART}&last=6h")
    other = page.context.new_page()
    live(other, f"{CHART}&last=6h")
    unseen(page)
    assert asked_at_a_commit(page, other, site) == []
    seen_again(page)
    rested(page, page.locator(".legend", has_text="37"))


def test_a_chart_of_what_is_published_is_not_asked_for_at_a_commit(page: Page, site: Site) -> None:
    live(page, f"{CHART}&since=2015-05-17&until=2015-05-18")
    other = page.context.new_page()
    live(other, f"{CHART}&last=6h")
    assert asked_at_a_commit(page, other, site) == []


def test_a_chart_that_costs_much_is_asked_for_seldom(page: Page, site: Site) -> None:
    page.clock.install()
    page.route("**/charts/data*", expensive)
    visit(page, f"{CHART}&last=6h")
    listening(page)
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=30))
    site.count(37)
    page.wait_for_timeout(500)
    changed = page.locator(".legend", has_text="37")
    assert changed.count() == 0
    page.clock.run_for(LONGEST_REST_MS)
    changed.wait_for()


def test_without_events_it_asks_now_and_then(page: Page, site: Site) -> None:
    site.deaf = True
    page.clock.install()
    visit(page, f"{CHART}&last=6h")
    page.locator("#live", has_text="asks every 10 s").wait_for()
    site.count(37)
    rested(page, page.locator(".legend", has_text="37"))


def test_with_the_network_cut_the_picture_stays_and_says_so_until_it_is_back(page: Page, site: Site) -> None:
    live(page, f"{CHART}&last=6h")
    before = values(page)
    page.route("**/charts/data*", lambda route: route.abort())
    site.count(37)
    rested(page, page.locator("#trouble", has_text="The server does not answer"))
    assert values(page) == before
    page.unroute("**/charts/data*")
    rested(page, page.locator(".legend", has_text="37"))  # nothing else is counted: it asks by itself
    assert page.locator("#trouble").inner_text() == ""


@pytest.mark.parametrize("body", ["{", '{"times": []}'])
def test_after_an_answer_that_cannot_be_read_it_is_live_again(page: Page, site: Site, body: str) -> None:
    live(page, f"{CHART}&last=6h")
    page.route("**/charts/data*", lambda route: route.fulfill(body=body, content_type="application/json"))
    with page.expect_response("**/charts/data*"):
        site.count(37)
        page.clock.run_for(60_000)
    settled(page)
    page.unroute("**/charts/data*")
    site.count(38)
    rested(page, page.locator(".legend", has_text="38"))


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


def test_a_point_leads_to_the_lines_of_its_own_series(page: Page) -> None:
    visit(page, f"{ALL}&split=client")
    first, second, *_ = page.locator(".legend .name").all_inner_texts()
    page.locator("#where").fill(f"client={first}")
    page.keyboard.press("Enter")
    page.get_by_label("Only where").last.fill(f"client={second}")
    page.keyboard.press("Enter")
    page.get_by_label("Only where").last.fill("path^=/")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('pin').href.includes('path')")
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    links = [each.get_attribute("href") or "" for each in page.locator("#point a").all()]
    assert [parse_qs(urlsplit(each).query)["where"] for each in links] == [
        ["path^=/", f"client={first}"],
        ["path^=/", f"client={second}"],
    ]


def test_below_the_last_condition_there_is_a_field_for_one_more(page: Page) -> None:
    visit(page, ALL)
    fields = page.locator("input[name=where]")
    for number, text in enumerate(("path^=/", "client^="), 1):
        assert fields.count() == number
        fields.last.fill(text)
        page.keyboard.press("Enter")
    assert [each.input_value() for each in fields.all()] == ["path^=/", "client^=", ""]
    until(page, "location.search.includes('client')")
    assert wishes(page)["where"] == ["path^=/", "client^="]


def test_a_time_that_only_the_time_before_has_shows_no_value(page: Page) -> None:
    """From hour 30 on, three hours have no results; the day before has them."""
    visit(page, f"{CHART}&since=2015-05-18&until=2015-05-19&compare=before")
    box = page.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 8 / 24, box["y"] + 50)
    page.locator(".legend .value", has_text="–").wait_for()
    page.mouse.move(box["x"] + box["width"] * 2 / 24, box["y"] + 50)
    page.locator(".legend .value", has_text=re.compile(r"\d")).wait_for()


def test_the_values_under_the_crosshair_stay_when_numbers_change(page: Page, site: Site) -> None:
    live(page, f"{CHART}&since=2015-05-19T18:00Z&until=2015-05-20T06:00Z")
    page.locator(".plot").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    before = values(page)
    site.count(37)
    rested(page, page.locator("#commit", has_text=str(site.layers.head)))
    assert values(page) == before


def test_the_total_of_the_time_before_is_that_of_what_is_shown(page: Page) -> None:
    visit(page, f"{ALL}&shape=stack")
    total = """async (hidden) => {
      const own = document.querySelector("[src$='charts.js']").src;
      const { linesOf, named } = await import(own.replace("charts.js", "columns.js"));
      const asked = "task=sample&split=client&since=2015-05-18&until=2015-05-19&compare=before";
      const data = await (await fetch(`/console/charts/data?${asked}`)).json();
      const gone = new Set(data.series.slice(0, hidden).map(named));
      const { lines } = linesOf(data, data.metrics[0], true, gone);
      const all = lines.find((each) => each.kind === "earlier").values;
      return [all.reduce((sum, each) => sum + each, 0), ...data.earlier.series.map((each) => [named(each),
        each.values.count.reduce((sum, value) => sum + value, 0), gone.has(named(each))])];
    }"""
    for hidden in (0, 1, 2):
        sum_of_all, *series = page.evaluate(total, hidden)
        assert sum_of_all == sum(own for _, own, gone in series if not gone) > 0


def test_keys_of_the_browser_are_left_to_it(page: Page) -> None:
    visit(page, ALL)
    page.locator(".plot").first.focus()
    for modifier, key in (("ctrlKey", "End"), ("altKey", "ArrowLeft"), ("metaKey", "Home"), ("ctrlKey", "+")):
        page.locator(".plot").first.dispatch_event("keydown", {"key": key, modifier: True})
    assert page.locator("#reader").inner_text() == ""
    assert "since" not in page.url
