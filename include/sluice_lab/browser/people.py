"""People at the running platform's pages."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluice.runtime.login_settings import Role
from sluice.runtime.settings import Settings
from sluice.stack.users import Users

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: How long a page of Airflow may take on a busy machine.
PATIENCE_MS = 60_000.0
CONSOLE = "/sluice/console"


@contextmanager
def known(settings: Settings, role: Role) -> Iterator[dict[str, str]]:
    """The name and the password of a new user with this role, who is removed afterwards."""
    users, name = Users(settings), f"{role}-{uuid.uuid4().hex[:8]}"
    login = {"username": name, "password": users.add(name, role)}
    try:
        yield login
    finally:
        users.remove(name)


@contextmanager
def logged_in(settings: Settings, browser: Browser, login: dict[str, str]) -> Iterator[Page]:
    """A page in a context of its own, of the user who logs in, as the log-in page would.

    Raises RuntimeError if the platform does not let the user in.
    """
    context = browser.new_context(base_url=settings.airflow.url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    answer = context.request.post("/auth/token", data=login, headers={"Origin": settings.airflow.url})
    if not answer.ok:
        raise RuntimeError(f"{login['username']} is not let in: {answer.text()}")
    try:
        yield context.new_page()
    finally:
        context.close()
