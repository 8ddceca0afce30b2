"""What a browser keeps of a log-in, and what a page on another port of this machine gets out of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from sluice.runtime.settings import Settings
from sluice_lab.browser.people import PATIENCE_MS
from tests.attack.callers import token
from tests.browser.people import admin, log_in
from tests.security.strangers import ASK, Stranger, outside

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

pytestmark = pytest.mark.stack

#: Another user's server: it prints the cookies that it is sent, and its page posts to Airflow.
SERVE = """
import http.server, sys
PAGE = b'''<!doctype html><title>waiting</title><script>
fetch("{url}{path}", {{method: "POST", mode: "no-cors", credentials: "include"}})
  .then(() => document.title = "sent", (error) => document.title = "failed")
document.cookie = "_token={planted}; path=/"
</script>'''
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.headers.get("Cookie", ""), flush=True)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "_token={planted}; Path=/sluice")
        self.end_headers()
        self.wfile.write(PAGE)
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def cookie_of_another(settings: Settings) -> str:
    """A valid token, which a page on another port could put into a browser."""
    with httpx.Client(base_url=settings.airflow.url, trust_env=False) as http:
        return token(http, *admin(settings))


@pytest.fixture
def person(stack: Settings, browser: Browser) -> Iterator[BrowserContext]:
    """A browser in which the admin logged in by the page."""
    context = browser.new_context(base_url=stack.airflow.url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto("/")
    log_in(page, *admin(stack))
    page.get_by_role("link", name="Sluice").first.wait_for()
    yield context
    context.close()


def test_a_browser_keeps_a_cookie_that_no_script_reads(stack: Settings, person: BrowserContext) -> None:
    (kept,) = [each for each in person.cookies() if "_token" in each["name"]]
    assert (kept["httpOnly"], kept["sameSite"], kept["expires"]) == (True, "Strict", -1)
    page = person.pages[0]
    assert "_token" not in page.evaluate("document.cookie")
    assert page.evaluate("JSON.stringify([localStorage, sessionStorage])").count("eyJ") == 0
    page.goto("/dags/retention")
    page.get_by_text("retention").first.wait_for()
    page.goto("/sluice/console/")
    assert page.locator("h1").inner_text() == "Now"
    for what in ("favorite", "unfavorite"):  # as Airflow's pages do it
        sent = f"fetch('/api/v2/dags/retention/{what}', {{method: 'POST'}}).then((got) => got.status)"
        assert page.evaluate(sent) == 204
    page.goto("/api/v2/auth/logout")
    page.locator("input[name=password]").wait_for()
    assert [each for each in person.cookies() if "_token" in each["name"]] == []


def test_a_page_on_another_port_gets_nothing_out_of_a_log_in(stack: Settings, person: BrowserContext) -> None:
    """The browser sends it the cookie, as cookies go to every port; nobody can use it, and the post fails."""
    planted = cookie_of_another(stack)
    script = SERVE.format(url=stack.airflow.url, path="/api/v2/dags/retention/favorite", planted=planted)
    command = [*outside(inside=True), "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            page = person.new_page()
            page.goto(f"http://127.0.0.1:{int(server.stdout.readline())}/stolen")
            page.wait_for_function("document.title !== 'waiting'")
        finally:
            server.kill()
        stolen = [line.strip() for line in server.stdout if "_token=" in line]
    assert stolen, "cookies go by host, whatever the port: if this fails, docs/security.md can promise more"
    for each in stolen:
        assert Stranger(stack).run(ASK, json.dumps({"Cookie": each})) == "401"
    own = person.new_page()
    own.goto("/sluice/console/")
    assert own.locator("h1").inner_text() == "Now"  # what was planted did not log the person out
    asked = "fetch('/api/v2/dags?is_favorite=true').then((got) => got.json())"
    assert own.evaluate(asked)["total_entries"] == 0
