"""Take the README's pictures of a running instance.

Run it as ``.venv/bin/python docs/screenshots.py [instance]``. It needs a Chromium that Playwright can drive
(Debian: apt install chromium); CHROMIUM names another one than /usr/bin/chromium.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1440, "height": 1000}


def main() -> None:
    if len(sys.argv) > 1:
        os.environ["SLUICE_INSTANCE"] = sys.argv[1]
    from sluice.runtime.settings import get_settings, read_secret

    settings = get_settings()
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        log_in(page, settings.airflow.url, settings.airflow.user, read_secret(settings.home, "airflow_admin"))
        for name, path in {
            "dags": "/dags",
            "nightly_batch": "/dags/nightly_batch",
        }.items():
            take(page, f"{settings.airflow.url}{path}", name)
        docs = settings.home / "data_docs"
        take(page, (docs / "index.html").as_uri(), "data_docs")
        newest = max((docs / "validations" / "results").rglob("*.html"), key=os.path.getmtime)
        take(page, newest.as_uri(), "validation")
        browser.close()


def log_in(page: Page, url: str, user: str, password: str) -> None:
    page.goto(url)
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(password)
    page.locator("button[type=submit]").click()
    page.wait_for_load_state("networkidle")


def take(page: Page, url: str, name: str) -> None:
    """Save a picture of a page 3 s after it has loaded: Airflow's pages still draw then."""
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(3_000)
    page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
