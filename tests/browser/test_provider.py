"""Log-in by an identity provider in a browser, which decides on cookies and names the site of a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluice_lab.browser.people import PATIENCE_MS
from tests.plugins.log_in_site import ME, Site, log_in_site
from tests.plugins.oidc_provider import OidcProvider, oidc_provider

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with oidc_provider(("1", {"preferred_username": "ann", "groups": ["staff"]})) as made:
        made.url = made.url.replace("127.0.0.1", "localhost")  # another site; another port would be the same
        yield made


@pytest.fixture(scope="module")
def serving(provider: OidcProvider) -> Iterator[Site]:
    given = {"issuer": provider.url, "client_id": "sluice", "client_secret_file": "oidc"}
    oidc = {**given, "label": "Example <Corp>", "roles": {"user": ["staff"]}}
    with pytest.MonkeyPatch.context() as patch, log_in_site(patch, oidc=oidc) as made:
        yield made


@pytest.fixture
def site(serving: Site, tmp_path: Path) -> Site:
    oidc = serving.settings.login.oidc
    assert oidc is not None
    serving.at(tmp_path, oidc=oidc.model_dump())
    (serving.settings.home / "secrets" / "oidc").write_text("a secret")
    (serving.settings.home / "secrets" / "oidc").chmod(0o600)
    return serving


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    context = browser.new_context(base_url=site.url)
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def test_a_person_presses_the_button_logs_in_there_and_comes_back(
    page: Page, site: Site, provider: OidcProvider
) -> None:
    page.goto(f"/auth/login?next={ME}")
    page.locator("input[name=password]").wait_for()
    page.get_by_role("link", name="Log in with Example <Corp>").click()
    page.wait_for_url(f"{provider.url}/**")
    (began,) = page.context.cookies()
    assert (began["name"], began["httpOnly"], began["sameSite"]) == ("_log_in", True, "Lax")
    page.locator("input[name=sub]").fill("1")
    page.locator("input[name=sub]").press("Enter")
    page.wait_for_url(f"{site.url}{ME}")
    assert '"username":"ann"' in page.content()
    (kept,) = page.context.cookies()
    assert (kept["name"], kept["httpOnly"], kept["sameSite"]) == ("_token", True, "Strict")


def test_the_button_stands_clear_of_the_form_on_every_width(page: Page) -> None:
    for width, height in ((1280, 800), (800, 400), (320, 640)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto("/auth/login")
        form = page.locator("input[name=username]")
        form.wait_for()
        button, field = page.locator("#provider a").bounding_box(), form.bounding_box()
        assert button is not None
        assert field is not None
        assert 0 <= button["x"] <= button["x"] + button["width"] <= width
        assert button["y"] + button["height"] < field["y"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_who_is_refused_reads_why_and_gets_back(page: Page, site: Site) -> None:
    page.goto("/auth/provider/return?state=x&code=y")
    assert page.locator("h1").inner_text() == "You are not logged in"
    assert "did not begin in this browser" in page.content()
    page.get_by_role("link", name="Back to the log-in").click()
    page.locator("input[name=password]").wait_for()


def test_a_page_of_another_site_begins_no_log_in(page: Page, site: Site, provider: OidcProvider) -> None:
    page.goto(provider.url)
    page.evaluate(f"location.href = '{site.url}/auth/provider'")
    page.wait_for_url(f"{site.url}/auth/provider")
    assert "another site's page may not do this" in page.content()
    assert page.context.cookies(site.url) == []
