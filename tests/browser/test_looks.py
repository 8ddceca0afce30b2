"""Pages look as they looked: compared with kept pictures, in light, in dark and on a narrow screen.

After a change that is meant, SLUICE_LOOKS=keep writes the pictures again: look at them before you commit.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

import pytest
from PIL import Image, ImageDraw

from sluice_lab.browser.pages import until
from tests.browser import pictures
from tests.browser.visits import PAGES, visit

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.slow, pytest.mark.long]

KEEP = os.environ.get("SLUICE_LOOKS") == "keep"
WIDE, NARROW = {"width": 1100, "height": 800}, {"width": 320, "height": 640}
LOOKS = {"light": ("light", WIDE), "dark": ("dark", WIDE), "narrow": ("light", NARROW)}
#: Pages that show the clock, or a text of the docs.
CHANGING = ("/console/platform", "/console/runbook")
#: How long a page may take to look as it should: charts are drawn after it is there.
SECONDS = 60.0


def name(path: str) -> str:
    """A file's name for a page: what its address says, without what every address has."""
    return re.sub(r"[^a-z0-9]+", "-", path.removeprefix("/console").lower()).strip("-") or "first"


def pages() -> list[str]:
    """Those that have pictures; to keep pictures, all but those that change by themselves."""
    if KEEP:
        return [path for path in PAGES if path not in CHANGING]
    return [path for path in PAGES if pictures.kept(f"{name(path)}-light")]


@pytest.mark.skipif(bool(os.environ.get("CHROMIUM")), reason="another browser has other fonts")
@pytest.mark.parametrize("path", pages())
def test_a_page_looks_as_it_looked(page: Page, path: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    visit(page, path)
    if page.locator("#live").count():
        until(page, "document.getElementById('live').textContent.startsWith('live')")
    wrong = {}
    for look, (theme, size) in LOOKS.items():
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.set_viewport_size(size)  # type: ignore[arg-type]
        if said := _compared(page, f"{name(path)}-{look}"):
            wrong[look] = said
    assert wrong == {}, "look at them; if that is how they should look, run this with SLUICE_LOOKS=keep"


def _compared(page: Page, picture: str) -> str:
    """How what the page itself shows differs from its picture."""
    part = page.locator("main")
    if KEEP:
        pictures.keep(_resting(page, part), picture)
        return ""
    before = pictures.kept(picture)
    if before is None:
        return f"{pictures.FOLDER / picture}.png does not exist"
    deadline = time.monotonic() + SECONDS
    # Charts follow the theme and the width a moment later.
    while said := pictures.difference(before, pictures.take(page, part)):
        if time.monotonic() > deadline:
            break
        page.wait_for_timeout(200)  # a picture costs as much as drawing the page
    return said


def _resting(page: Page, part: Locator) -> Image.Image:
    """A picture that the page still shows half a second later."""
    before, now = None, pictures.take(page, part)
    while before is None or pictures.difference(before, now):
        page.wait_for_timeout(500)
        before, now = now, pictures.take(page, part)
    return now


def test_every_kept_picture_is_of_a_page() -> None:
    wanted = {f"{name(path)}-{look}.png" for path in pages() for look in LOOKS}
    assert {each.name for each in pictures.FOLDER.iterdir()} == wanted


def test_the_comparison_finds_what_a_person_would_and_nothing_less() -> None:
    before = Image.new("RGB", (400, 300), "#fbfbfa")
    pen = ImageDraw.Draw(before)
    pen.rectangle((40, 40, 140, 60), fill="#0a6c73")
    assert pictures.difference(before, before.copy()) == ""
    for change in ("#62c8ce", "#a8261d"):
        other = before.copy()
        ImageDraw.Draw(other).rectangle((40, 40, 140, 60), fill=change)
        assert "squares differ, all within [40, 40, 144, 64]" in pictures.difference(before, other)
    moved = Image.new("RGB", (400, 300), "#fbfbfa")
    moved.paste(before, (0, 3))
    assert "squares differ" in pictures.difference(before, moved)
    noisy = before.point([min(255, value + 3) for value in range(256)] * 3)
    assert pictures.difference(before, noisy) == ""
    taller = before.resize((400, 310))
    assert pictures.difference(before, taller) == "it is 400 x 310 pixels, and was 400 x 300"
