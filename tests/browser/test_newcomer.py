"""From the log-in to a live chart on the running platform: by mouse alone, and by keyboard alone.

While the newcomer works, lines come in at a front-end, and some of what stands in them is hostile.
"""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.tasks.store import TaskStore
from sluice.transmission.sample import sample
from sluice_lab.access_lines import access_line
from sluice_lab.browser.pages import until as until_page
from sluice_lab.browser.people import CONSOLE, PATIENCE_MS
from sluice_lab.waiting import until
from tests.browser.people import admin, console, log_in, tab_to
from tests.e2e.conftest import DEPLOYED_SECONDS, JOBS
from tests.e2e.running import Platform

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

pytestmark = pytest.mark.stack

#: The clients of the lines: one is hostile, and none is like those of other tests.
CLIENTS = ("<img/src=x/onerror=alert(1)>", f"c{uuid.uuid4().hex[:8]}")
STATUS = "418"
LINES_AT_ONCE, PAUSE_SECONDS = 10, 0.5
#: Lines whose pieces the editor shows.
POINTED = 12
CHART_MS = 120_000.0


@pytest.fixture(scope="module")
def lines(stack: Settings) -> Iterator[None]:
    """Lines of now come in, as long as the tests of this module run."""
    run = stack.home / "run"
    until(
        lambda: all(detached.alive(detached.read(job, run)) for job in JOBS), DEPLOYED_SECONDS, "the jobs run"
    )
    platform, enough = Platform(stack, stack.home / "faults"), threading.Event()

    def write() -> None:
        while not enough.wait(PAUSE_SECONDS):
            now = dt.datetime.now(dt.UTC)
            made = [
                access_line(now, client=CLIENTS[n % 2], path="/", status=STATUS, size="1")
                for n in range(LINES_AT_ONCE)
            ]
            platform.append(now.date(), "".join(f"{line}\n" for line in made).encode())

    writer = threading.Thread(target=write, name="lines")
    writer.start()
    try:
        until(
            lambda: any(CLIENTS[1].encode() in line for line in sample(stack, "logs", POINTED)),
            what="a line came",
        )
        yield
    finally:
        enough.set()
        writer.join()


@pytest.fixture
def page(stack: Settings, browser: Browser) -> Iterator[Page]:
    """A page of Airflow's log-in; tasks that somebody makes from here are deleted afterwards."""
    store = TaskStore(engine(stack))
    before = {task.name for task in store.list()}
    context = browser.new_context(base_url=stack.airflow.url, viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    own = context.new_page()
    own.on("dialog", lambda dialog: pytest.fail(f"a script of a line ran: {dialog.message}"))
    own.goto("/")
    yield own
    context.close()
    for task in store.list():
        if task.name not in before and task.name.startswith("logs_by_"):
            store.delete(task.name, "test")


def series(frame: Frame, name: str) -> str:
    """The legend's entry of a series, once there is one."""
    entry = frame.locator(".legend button", has_text=name).first
    entry.wait_for(timeout=CHART_MS)
    return entry.inner_text()


def test_by_mouse_alone(stack: Settings, lines: None, page: Page) -> None:
    log_in(page, *admin(stack))  # the last keys
    page.get_by_role("link", name="Sluice").first.click()
    frame = console(page)
    frame.get_by_role("link", name="Statistics").click()
    frame.get_by_role("link", name="New statistic").click()
    frame.locator("#pieces").get_by_role("button", name=STATUS, exact=True).first.click()
    frame.get_by_role("button", name="Count by it").first.click()
    until_page(frame, "/^logs_by_/.test(document.getElementById('name')?.value ?? '')")
    frame.get_by_role("button", name="Review and save").click()
    frame.get_by_role("button", name="Save", exact=True).click()
    frame.get_by_role("status").filter(has_text="Saved").wait_for()
    frame.get_by_role("link", name="Chart", exact=True).click()
    frame.get_by_role("checkbox", name="status").check()
    first = series(frame, STATUS)
    frame.evaluate("window.same = document.querySelector('.plot canvas')")
    frame.locator("#live", has_text="live").wait_for()
    until_page(frame, f"!document.querySelector('.legend').innerText.includes({first!r})", CHART_MS / 1000)
    assert frame.evaluate("window.same === document.querySelector('.plot canvas')")

    page.context.set_offline(True)
    before = frame.locator(".legend").first.inner_text()
    frame.get_by_label("As", exact=True).select_option("bars")
    frame.locator("#trouble", has_text="The server does not answer").wait_for()
    assert frame.locator(".legend").first.inner_text() == before
    page.context.set_offline(False)
    frame.get_by_label("As", exact=True).select_option("stack")
    until_page(frame, "!document.getElementById('trouble').textContent", CHART_MS / 1000)


def test_by_keyboard_alone(stack: Settings, lines: None, page: Page) -> None:
    keys = page.keyboard
    page.locator("input[name=username]").wait_for()
    for name, text in zip(("Username", "Password"), admin(stack), strict=True):
        tab_to(page, name, whole=False)
        keys.type(text)
    keys.press("Enter")
    page.get_by_role("link", name="Sluice").first.wait_for()
    tab_to(page, "Sluice", whole=False)
    keys.press("Enter")
    frame = console(page)
    for name in ("Statistics", "New statistic"):
        tab_to(page, name)
        keys.press("Enter")
        frame.locator("h1", has_text=name).wait_for()
    frame.wait_for_selector("#pieces button[tabindex='0']")
    tab_to(page, frame.locator("#pieces button").first.inner_text())
    for _ in range(POINTED):
        if frame.evaluate("document.activeElement.textContent") != CLIENTS[1]:
            keys.press("ArrowDown")
    keys.press("Enter")
    until_page(frame, "document.activeElement.id === 'made-of'")
    tab_to(page, "Count by it")
    keys.press("Enter")
    until_page(frame, "/^logs_by_/.test(document.getElementById('name')?.value ?? '')")
    tab_to(page, "Review and save")
    keys.press("Enter")
    frame.locator("h1", has_text="Save logs_by_").wait_for()
    tab_to(page, "Save")
    keys.press("Enter")
    frame.get_by_role("status").filter(has_text="Saved").wait_for()
    tab_to(page, "Chart")
    keys.press("Enter")
    frame.wait_for_selector("#split, input[name=split]")
    tab_to(page, frame.locator("label", has=frame.locator("input[name=split]")).first.inner_text().strip())
    keys.press("Space")
    tab_to(page, "The largest")
    keys.press("Control+A")
    keys.type("20")  # lines of other tests may still come, and are series, too
    keys.press("Enter")
    series(frame, CLIENTS[1])
    series(frame, CLIENTS[0])
    tab_to(page, "count of ", whole=False)
    keys.press("End")
    until_page(frame, "document.getElementById('reader').textContent.includes('count')")
    keys.press("Enter")
    until_page(frame, "document.activeElement.id === 'point-heading'")
    assert frame.locator("img[src=x]").count() == 0
    assert CONSOLE in frame.url
