"""People at the running platform's pages: who they are, and how they move about by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluice.runtime.settings import Settings, read_secret
from sluice.stack.users import Role
from sluice_lab.browser.people import PATIENCE_MS, known, logged_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

#: What the focused element is called: its label, its text, or its name.
_FOCUSED = """() => {
  const own = document.activeElement;
  if (!own || own === document.body) return "";
  const label = own.getAttribute("aria-label") || own.labels?.[0]?.textContent;
  return (label || own.textContent || own.name || "").trim();
}"""


def log_in(page: Page, user: str, password: str) -> None:
    """Log in by the form that the page shows."""
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(password)
    page.locator("button[type=submit]").click()


def admin(settings: Settings) -> tuple[str, str]:
    """The name and the password of the platform's own admin."""
    return settings.airflow.user, read_secret(settings.home, "airflow_admin")


@contextmanager
def somebody(settings: Settings, browser: Browser, role: Role) -> Iterator[Page]:
    """A page of a new user with this role."""
    with known(settings, role) as login, logged_in(settings, browser, login) as page:
        yield page


def console(page: Page) -> Frame:
    """The console's frame in Airflow's page, with a page of the console in it."""
    page.wait_for_selector("iframe[title=Sluice]", timeout=PATIENCE_MS)
    frame = page.frames[1]
    frame.wait_for_selector("h1", timeout=PATIENCE_MS)
    return frame


def tab_to(page: Page, name: str, *, whole: bool = True, most: int = 300) -> None:
    """Press Tab until something is focused that has this name, or whose name begins so."""
    seen = []
    for _ in range(most):
        page.keyboard.press("Tab")
        found = [each.evaluate(_FOCUSED) for each in page.frames]
        if any(each == name or (not whole and each.startswith(name)) for each in found):
            return
        seen += [each[:30] for each in found if each]
    raise AssertionError(f"Tab does not lead to {name!r}, but to {seen[-40:]}")
