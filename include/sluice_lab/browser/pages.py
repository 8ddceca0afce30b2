"""Waiting for a page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sluice_lab.waiting import SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

_POLL_MS = 50


def settled(page: Page) -> None:
    """Wait until nothing is being loaded."""
    page.wait_for_selector("[aria-busy=true]", state="detached")


def until(page: Page | Frame, holds: str, seconds: float = SECONDS) -> None:
    """Wait until an expression holds. The page forbids what Playwright's own way of waiting needs.

    Raises TimeoutError after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not page.evaluate(holds):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"not within {seconds:g} s: {holds}")
        page.wait_for_timeout(_POLL_MS)
