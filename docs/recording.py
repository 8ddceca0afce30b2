"""Record the README's pictures of the console on a running instance.

Run it as ``.venv/bin/python docs/recording.py [instance]``, best on the one of `make demo`. It makes the
statistic `logs_by_status` by mouse as a newcomer would, while made-up lines of today come in, deletes it, and
says how long that took from the log-in to the live chart.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Locator, Page

    from sluice.runtime.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SIZE, SHOWN = {"width": 1200, "height": 800}, (900, 600)
WIDE = {"width": 1800, "height": 1200}  # the whole flow of lines
COLOURS = 64
LINES, RATE = 60_000, 300
#: Milliseconds that a picture stays, and how often the live chart is taken.
STAYS, BEAT, BEATS = 1_400, 700, 12
CHART_MS = 120_000
_POINTER = """([x, y]) => {
  const own = document.getElementById("pointer") ?? document.body.appendChild(document.createElement("div"));
  own.id = "pointer";
  Object.assign(own.style, { position: "fixed", left: `${x - 9}px`, top: `${y - 9}px`, width: "18px",
    height: "18px", borderRadius: "50%", background: "#e8590cb0", border: "2px solid white",
    boxShadow: "0 0 0 2px #e8590c", zIndex: 99, pointerEvents: "none" });
}"""


class Film:
    """Pictures of a page, each with the time that it stays."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.pictures: list[Image.Image] = []
        self.stays: list[int] = []
        self.live = 0.0  # when the chart had its first lines

    def take(self, stays: int = STAYS) -> None:
        """Add what the page shows."""
        whole = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.pictures.append(whole.resize(SHOWN, Image.Resampling.LANCZOS))
        self.stays.append(stays)

    def click(self, on: Locator) -> None:
        """Show the pointer on an element, then click it."""
        on.scroll_into_view_if_needed()
        box = on.bounding_box()
        if box is None:
            raise RuntimeError(f"{on} is not shown")
        at = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        self.page.evaluate(_POINTER, at)
        self.take()
        on.click()

    def save(self, path: Path) -> None:
        """Write all pictures with one palette, so that only what changes is stored."""
        palette = self.pictures[-1].quantize(COLOURS)
        small = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in self.pictures]
        small[0].save(
            path, save_all=True, append_images=small[1:], duration=self.stays, loop=0, optimize=True
        )


def main() -> None:
    if len(sys.argv) > 1:
        os.environ["SLUICE_INSTANCE"] = sys.argv[1]
    sys.path.insert(0, str(ROOT))
    from tests.browser.people import admin, console, log_in
    from tests.browser.tools import started

    from sluice.runtime.settings import get_settings

    settings = get_settings()
    IMAGES.mkdir(exist_ok=True)
    with started() as browser, lines_of_today(settings):
        page = browser.new_page(base_url=settings.airflow.url, viewport=SIZE)  # type: ignore[arg-type]
        page.set_default_timeout(CHART_MS)
        began = time.monotonic()
        page.goto("/")
        log_in(page, *admin(settings))
        page.get_by_role("link", name="Sluice").first.wait_for(timeout=60_000)
        film = Film(page)
        film.click(page.get_by_role("link", name="Sluice").first)
        name = newcomer(film, console(page))
        film.save(IMAGES / "newcomer.gif")
        sys.stdout.write(f"from the log-in to the live chart: {film.live - began:.0f} s\n")
        pictures(page, compared_days(settings))
        delete(page, name)


@contextmanager
def lines_of_today(settings: Settings) -> Iterator[None]:
    """Made-up lines of today come in at the front-ends."""
    from sluice.traffic import generate

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "today.log"
        generate.write(log, LINES, days=1, start=datetime.now(UTC).date())
        command = [ROOT / ".venv" / "bin" / "sluice", "--instance", settings.instance, "replay", log]
        with subprocess.Popen([*command, "--rate", str(RATE)], stdout=subprocess.DEVNULL) as replay:
            try:
                yield
            finally:
                replay.terminate()


def newcomer(film: Film, frame: Frame) -> str:
    """From the first page to a live chart; returns the name of the statistic."""
    from tests.browser.visits import until

    frame.locator(".figure").first.wait_for()
    film.click(frame.get_by_role("link", name="Statistics"))
    film.click(frame.get_by_role("link", name="New statistic"))
    film.click(frame.locator("#pieces").get_by_role("button", name="200", exact=True).first)
    film.click(frame.get_by_role("button", name="Count by it").first)
    until(frame, "document.getElementById('name')?.value", CHART_MS / 1000)
    frame.locator("#results table").wait_for()
    name = frame.locator("#name").input_value()
    film.take(2 * STAYS)
    film.click(frame.get_by_role("button", name="Review and save"))
    film.click(frame.get_by_role("button", name="Save", exact=True))
    film.click(frame.get_by_role("link", name="Chart", exact=True))
    frame.locator(".legend button").first.wait_for(timeout=CHART_MS)
    film.click(frame.get_by_role("checkbox", name="status"))
    frame.locator(".legend button", has_text="200").wait_for(timeout=CHART_MS)
    film.live = time.monotonic()
    for _ in range(BEATS):
        film.page.wait_for_timeout(BEAT)
        film.take(BEAT // 2)
    film.take(2 * STAYS)
    return name


def compared_days(settings: Settings) -> tuple[date, date]:
    """The first day that was compared, and the day after the last: the demo's log."""
    from sluice.storage import reconciled
    from sluice.storage.postgres import engine

    days = reconciled.newest_of_days(engine(settings), "logs", date.min, date.max)
    if not days:
        sys.exit("no day of topic logs was compared yet: run `make demo` first")
    return min(days), max(days) + timedelta(days=1)


def pictures(page: Page, days: tuple[date, date]) -> None:
    """Pictures of pages without Airflow's frame, some in the dark theme. days: what they show."""
    from tests.browser.people import CONSOLE
    from tests.browser.visits import settled

    chart = f"charts?task=hits_by_status&since={days[0]}&until={days[1]}&split=status&shape=stack"
    for name, path, theme, size in (
        ("chart", chart, "dark", SIZE),
        ("statistics", "statistics", "light", SIZE),
        ("platform", "platform", "light", WIDE),
    ):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.goto(f"{CONSOLE}/{path}")
        settled(page)
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        small = shot.quantize(256, dither=Image.Dither.NONE)
        small.save(IMAGES / f"console_{name}.png", optimize=True)


def delete(page: Page, name: str) -> None:
    """Delete the statistic that was made."""
    from tests.browser.people import CONSOLE

    page.goto(f"{CONSOLE}/statistics/task/{name}/delete")
    page.get_by_role("button", name=f"Delete {name}").click()
    page.locator("h1", has_text="Statistics").wait_for()


if __name__ == "__main__":
    main()
