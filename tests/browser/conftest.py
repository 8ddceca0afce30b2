"""A browser, and a server of the console over stores in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import tests.plugins.conftest  # noqa: F401 - Airflow without daemons
from sluice_lab.browser.tools import started
from sluice_lab.waiting import SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.browser.site import Site


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import expect

    expect.set_options(timeout=1000 * SECONDS)  # as long as everything else waits: other machines are slower
    with started() as own:
        yield own


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    from tests.browser.site import site as made

    with made(monkeypatch) as own:
        yield own


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page of the site, in a zone that is not UTC; whatever its console says is an error."""
    context = browser.new_context(base_url=site.url, timezone_id="Europe/Berlin", locale="en-GB")
    context.set_default_timeout(1000 * SECONDS)
    own = context.new_page()
    said: list[str] = []
    own.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    own.on("pageerror", lambda error: said.append(str(error)))
    own.said = said  # type: ignore[attr-defined]
    yield own
    context.close()
