"""The console on the running platform, inside Airflow's pages: its navigation, its address, its log-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sluice.runtime.settings import Settings, read_secret

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

pytestmark = pytest.mark.stack


@pytest.fixture
def airflow(stack: Settings, browser: Browser) -> Iterator[Page]:
    """Airflow's pages, logged in."""
    context = browser.new_context(base_url=stack.airflow.url, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto("/")
    page.locator("input[name=username]").fill(stack.airflow.user)
    page.locator("input[name=password]").fill(read_secret(stack.home, "airflow_admin"))
    page.locator("button[type=submit]").click()
    page.get_by_role("link", name="Sluice").first.wait_for(timeout=60_000)
    yield page
    context.close()


def console(page: Page) -> Frame:
    page.wait_for_selector("iframe[title=Sluice]", timeout=60_000)
    frame = page.frames[1]
    frame.wait_for_selector("h1")
    return frame


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


def test_without_a_login_the_console_leads_to_airflows(stack: Settings, browser: Browser) -> None:
    context = browser.new_context(base_url=stack.airflow.url)
    page = context.new_page()
    page.goto("/sluice/console/charts")
    page.get_by_role("link", name="Log in").click()
    page.locator("input[name=username]").fill(stack.airflow.user)
    page.locator("input[name=password]").fill(read_secret(stack.home, "airflow_admin"))
    page.locator("button[type=submit]").click()
    page.wait_for_url("**/sluice/console/charts", timeout=60_000)
    assert page.locator("h1").inner_text() == "Charts"
    context.close()
