"""The console on the running platform, inside Airflow's pages: its navigation, its address, its log-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.users import Role
from sluice_lab.browser.people import CONSOLE, PATIENCE_MS
from tests.browser.people import admin, console, log_in, somebody

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.stack


@pytest.fixture
def airflow(stack: Settings, browser: Browser) -> Iterator[Page]:
    """Airflow's pages, logged in."""
    context = browser.new_context(base_url=stack.airflow.url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto("/")
    log_in(page, *admin(stack))
    page.get_by_role("link", name="Sluice").first.wait_for()
    yield page
    context.close()


def test_airflows_navigation_leads_to_the_console_and_the_address_follows(airflow: Page) -> None:
    airflow.get_by_role("link", name="Sluice").first.click()
    frame = console(airflow)
    assert frame.locator("h1").inner_text() == "Now"
    assert (
        frame.evaluate("getComputedStyle(document.querySelector('.top')).display") == "flex"
    )  # it has its style
    frame.get_by_role("link", name="Charts").click()
    frame.wait_for_url("**/sluice/console/charts")
    airflow.wait_for_url("**/plugin/sluice/sluice/console/charts")
    airflow.reload()
    assert console(airflow).locator("h1").inner_text() == "Charts"


def test_back_and_forward_lead_through_the_consoles_pages(airflow: Page) -> None:
    airflow.get_by_role("link", name="Sluice").first.click()
    frame = console(airflow)
    for name in ("Statistics", "Quality"):
        frame.get_by_role("link", name=name).first.click()
        frame.locator("h1", has_text=name).wait_for()
    airflow.go_back()
    console(airflow).locator("h1", has_text="Statistics").wait_for()
    airflow.go_forward()
    console(airflow).locator("h1", has_text="Quality").wait_for()


def test_without_a_login_the_console_leads_to_airflows(stack: Settings, browser: Browser) -> None:
    context = browser.new_context(base_url=stack.airflow.url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{CONSOLE}/charts")
    page.get_by_role("link", name="Log in").click()
    log_in(page, *admin(stack))
    page.wait_for_url(f"**{CONSOLE}/charts")
    assert page.locator("h1").inner_text() == "Charts"
    context.close()


@pytest.mark.parametrize("role", ["viewer", "user", "op", "admin"])
def test_a_role_is_offered_what_it_may_do_and_refused_the_rest(
    stack: Settings, browser: Browser, role: Role
) -> None:
    path = f"{CONSOLE}/statistics/task/hits_by_status"
    with somebody(stack, browser, role) as page:
        page.goto(path)
        offered = {each for each in ("Edit", "Pause", "Delete") if page.get_by_text(each, exact=True).count()}
        # Nothing to fill is named, so nothing is done where it is allowed.
        send = f"fetch('{path}/backfill', {{method: 'POST', body: new URLSearchParams()}})"
        done = (offered, page.evaluate(f"{send}.then((got) => got.status)"))
    assert done == ((set(), 403) if role == "viewer" else ({"Edit", "Pause", "Delete"}, 422))
