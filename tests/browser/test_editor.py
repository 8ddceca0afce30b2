"""The editor in a browser with scripts: by mouse, by keyboard, and with the server away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from sluice.tasks.store import TaskStore
from tests.browser.visits import visit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.browser.site import Site

pytestmark = pytest.mark.slow

STATISTICS = "/console/statistics"
NEW = f"{STATISTICS}/new"


def test_a_statistic_by_mouse_alone_but_for_its_name(page: Page, site: Site) -> None:
    visit(page, STATISTICS)
    page.get_by_role("link", name="New statistic").click()
    page.locator("#pieces").get_by_role("button", name="404", exact=True).click()
    page.get_by_role("button", name="Count by it").first.click()
    expect(page.locator("#dimensions-0-name")).to_have_value("status")
    expect(page.locator("#results")).to_contain_text("3 of 3 lines are counted")
    page.locator("#name").fill("hits")
    expect(page.locator("#yaml")).to_have_value(containing("name: hits"))
    page.get_by_role("button", name="Review and save").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Saved")
    assert TaskStore(site.database).get("hits").spec.dimensions[0].extract.field == "status"


def containing(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


def test_pieces_are_reached_by_arrow_keys(page: Page) -> None:
    visit(page, NEW)
    page.locator("#pieces button").first.focus()
    for key in ("ArrowDown", "End", "Home", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator("#pieces button[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    expect(page.locator("#made-of")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#fields")).to_contain_text("Dimension 1")


def test_the_draft_is_tried_while_it_is_written_and_the_focus_stays(page: Page) -> None:
    visit(page, NEW)
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


def test_what_was_written_survives_a_server_that_is_away(page: Page) -> None:
    visit(page, NEW)
    page.route("**/statistics/draft", lambda route: route.abort())
    page.locator("#name").fill("hits")
    expect(page.locator("#state")).to_contain_text("What you wrote is still here")
    page.unroute("**/statistics/draft")
    page.locator("#period").fill("1h")
    expect(page.locator("#state")).to_be_empty()
    expect(page.locator("#name")).to_have_value("hits")


def wait_until(page: Page, filled: Sequence[object]) -> None:
    """Wait until something is in the list that handlers of the page fill."""
    for _ in range(9_000):
        if filled:
            return
        page.wait_for_timeout(20)
    raise AssertionError("nothing came")


def holding_the_first(page: Page) -> list[Route]:
    """The drafts that the page sends; the first one waits until the test lets it go on."""
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        held.append(route)

    page.route("**/statistics/draft", hold_the_first)
    return held


def test_what_is_typed_while_a_button_is_answered_stays_and_the_button_counts(page: Page) -> None:
    visit(page, NEW)
    held = holding_the_first(page)
    page.get_by_role("button", name="Add a dimension").click()
    wait_until(page, held)
    page.locator("#name").fill("hits")
    held[0].continue_()
    expect(page.locator("#fields")).to_contain_text("Dimension 1")
    expect(page.locator("#name")).to_have_value("hits")
    expect(page.locator("#yaml")).to_have_value(containing("name: hits"))


TYPED = "- name: typed\n  topic: logs\n  period: 5m\n  metrics: [count]\n"


def test_the_review_is_of_the_yaml_that_was_written(page: Page) -> None:
    visit(page, NEW)
    page.locator("#yaml").fill(TYPED)
    page.get_by_role("button", name="Review and save").click()
    expect(page.get_by_role("heading", name="Save typed?")).to_be_visible()


def test_a_button_is_for_the_yaml_that_was_written(page: Page) -> None:
    visit(page, NEW)
    page.locator("#yaml").fill(TYPED)
    page.get_by_role("button", name="Add a dimension").click()
    expect(page.locator("#fields")).to_contain_text("Dimension 1")
    expect(page.locator("#name")).to_have_value("typed")
    expect(page.locator("#yaml")).to_have_value(containing("dimensions"))


def test_a_field_that_is_typed_into_while_the_yaml_is_answered_changes_what_the_yaml_says(page: Page) -> None:
    visit(page, NEW)
    held = holding_the_first(page)
    page.locator("#yaml").fill(TYPED)
    wait_until(page, held)
    page.locator("#description").fill("mine")
    held[0].continue_()
    expect(page.locator("#yaml")).to_have_value(containing("description: mine"))
    expect(page.locator("#yaml")).to_have_value(containing("name: typed"))
    expect(page.locator("#description")).to_have_value("mine")
    page.locator("#period").fill("1h")  # now the fields count again
    page.get_by_role("button", name="Review and save").click()
    expect(page.locator(".diff")).to_contain_text("period: 1h")


def test_a_field_that_is_typed_into_just_after_the_yaml_changes_what_the_yaml_says(page: Page) -> None:
    visit(page, NEW)
    page.locator("#yaml").fill(TYPED)
    page.locator("#description").fill("mine")
    expect(page.locator("#yaml")).to_have_value(containing("description: mine"))
    expect(page.locator("#yaml")).to_have_value(containing("name: typed"))


def test_a_yaml_that_is_no_task_is_lost_neither_by_a_field_nor_by_the_review(page: Page) -> None:
    visit(page, NEW)
    page.locator("#name").fill("mine")
    expect(page.locator("#yaml")).to_have_value(containing("name: mine"))
    page.locator("#yaml").fill("name: [")
    expect(page.locator("#yaml")).to_have_attribute("aria-invalid", "true")
    with page.expect_response("**/statistics/draft"):
        page.locator("#period").fill("1h")
    expect(page.locator("#state")).to_be_empty()
    expect(page.locator("#yaml")).to_have_value("name: [")
    expect(page.locator("#period")).to_have_value("1h")
    for _ in range(2):
        page.get_by_role("button", name="Review and save").click()
        page.wait_for_url("**/review")
        expect(page.locator("#yaml")).to_have_value(re.compile(r"name: \["))
        expect(page.locator("#said .problem")).to_be_visible()
    page.locator("#yaml").fill(TYPED)
    expect(page.locator("#name")).to_have_value("typed")
    expect(page.locator("#yaml")).not_to_have_attribute("aria-invalid", "true")
