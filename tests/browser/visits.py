"""What a person does on a page, and waits for there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice_lab.browser.pages import settled
from sluice_lab.browser.tools import modules
from sluice_lab.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route


#: There is no such page, and the browser says so.
MISSING = "/console/nowhere"
PAGES = (
    "/console/",
    "/console/charts",
    "/console/charts?task=sample&last=all&metric=count&metric=p50&split=path&compare=before",
    "/console/charts?task=sample&bare=true",
    "/console/dashboards",
    "/console/dashboards/1",
    "/console/dashboards/2?bare=true",
    "/console/dashboards/1/edit",
    "/console/dashboards/1/delete",
    "/console/dashboards/pin?task=sample&split=path",
    "/console/statistics",
    "/console/statistics/new",
    "/console/statistics/task/sample",
    "/console/statistics/task/sample/edit",
    "/console/statistics/new?like=broken > Review and save",
    "/console/statistics/task/sample/delete",
    "/console/quality",
    "/console/quality/day?topic=logs&day=2015-05-18",
    "/console/dead",
    "/console/platform",
    "/console/runbook",
    "/console/topics",
    "/console/topics/logs/rebuilds",
    MISSING,
)


def visit(page: Page, path: str) -> None:
    """Go to a page, and wait until all of it is there. After " > " stands a button to press then."""
    address, _, button = path.partition(" > ")
    page.goto(address)
    settled(page)
    if button:
        page.get_by_role("button", name=button).click()
        page.get_by_role("button", name="Save", exact=True).wait_for()
        settled(page)


def unseen(page: Page) -> None:
    """Let the page take itself for one in a tab that nobody sees."""
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })")


def seen_again(page: Page) -> None:
    page.evaluate("delete document.hidden")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def expensive(route: Route) -> None:
    """Answer, and tell of so much work that the page rests as long as it ever does."""
    answer = route.fetch()
    route.fulfill(response=answer, headers={**answer.headers, "server-timing": "cpu;dur=60000"})


def rested(page: Page, shown: Locator) -> None:
    """Wait for what is shown after the page has rested, which it does by a clock that the test moves."""

    def look() -> bool:
        if shown.is_visible():
            return True
        page.clock.run_for(5_000)
        page.wait_for_timeout(100)
        return False

    until(look, what=lambda: shown, poll=0.0)


def violations(page: Page) -> list[Any]:
    """What axe finds, with the elements."""
    # By an evaluation: the page itself takes no script but its own.
    page.evaluate((modules() / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")["violations"]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
