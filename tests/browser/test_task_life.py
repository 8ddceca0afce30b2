"""A task's life on the running platform's pages: two people change it at once, then one ends it."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.tasks.store import TaskStore
from sluice_lab.browser.people import CONSOLE
from tests.browser.people import somebody
from tests.engine.samples import spec

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.stack

#: The job of a backfill starts Spark.
FILLED_MS = 240_000.0


@pytest.fixture
def task(stack: Settings) -> Iterator[str]:
    """A task that nobody else has."""
    store, name = TaskStore(engine(stack)), f"t{uuid.uuid4().hex[:12]}"
    store.apply([spec(name=name, period="1h")], "ann")
    yield name
    if any(each.name == name for each in store.list()):
        store.delete(name, "test")


def change(page: Page, period: str) -> None:
    """Change the period in the open editor, up to the button that saves it."""
    page.get_by_label("Period").fill(period)
    page.get_by_role("button", name="Review and save").click()


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def test_of_two_people_the_second_is_told_and_may_go_on(stack: Settings, browser: Browser, task: str) -> None:
    own = f"{CONSOLE}/statistics/task/{task}"
    with somebody(stack, browser, "user") as ann, somebody(stack, browser, "op") as bob:
        for page in (ann, bob):
            page.goto(f"{own}/edit")
            page.locator("#yaml").wait_for()
        change(ann, "5m")
        save(ann)
        ann.get_by_role("status").filter(has_text="Saved").wait_for()
        change(bob, "15m")
        save(bob)
        bob.locator("h1", has_text="was changed meanwhile").wait_for()
        assert "period: 15m" in bob.locator(".diff .plus").all_inner_texts()[-1]
        bob.get_by_role("button", name="Go on with mine").click()
        bob.get_by_role("button", name="Review and save").click()
        save(bob)
        bob.get_by_role("status").filter(has_text="Saved").wait_for()
        assert bob.locator("pre").inner_text().count("period: 15m") == 1


def test_a_task_is_paused_resumed_restored_filled_and_deleted(
    stack: Settings, browser: Browser, task: str
) -> None:
    store = TaskStore(engine(stack))
    store.apply([spec(name=task, period="5m")], "bob")
    with somebody(stack, browser, "user") as page:
        page.goto(f"{CONSOLE}/statistics/task/{task}")
        for button, said in (("Pause", "Paused"), ("Resume", "Resumed")):
            page.get_by_role("button", name=button).click()
            page.get_by_role("status").filter(has_text=said).wait_for()
        page.get_by_role("link", name="Restore version 1").click()
        page.get_by_role("button", name="Review and save").click()
        page.locator("h1", has_text=f"Save {task}?").wait_for()
        save(page)
        page.get_by_role("status").filter(has_text="Saved").wait_for()
        assert (store.get(task).version, store.get(task).spec.period) == (3, "1h")
        day = (dt.datetime.now(dt.UTC).date() - dt.timedelta(days=400)).isoformat()  # without a line
        page.get_by_label("From (day, UTC)").fill(day)
        page.get_by_label("To, included").fill(day)
        page.get_by_role("button", name="Fill these days").click()
        page.get_by_role("status").filter(has_text="started").wait_for()
        page.locator("#backfills", has_text="finished").wait_for(timeout=FILLED_MS)
        page.get_by_role("link", name="Delete").click()
        page.get_by_role("button", name=f"Delete {task}").click()
        page.locator("h1", has_text="Statistics").wait_for()
        assert all(each.name != task for each in store.list())
