"""Pictures of pages: nothing in them follows the clock; they are kept small, and compared with tolerance.

The browser of the tests brings its own font, and draws without a graphics card, so a picture hardly depends
on the machine. What still may differ, such as the edge of a letter, is less than what is tolerated: the mean
colours of small squares are compared, and a few squares may differ. A picture is kept with coarser colours.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from sluice.runtime.arrays import Floats

FOLDER = Path(__file__).parent / "looks"
#: Pixels of a square's side.
SQUARE = 8
#: By how much a square's mean may differ in red, green or blue (of 255); how many of 1,000 squares may more.
SHADES, PER_MILLE = 12.0, 1.0
#: Red, green and blue are kept as multiples of this.
COARSE = 16

#: Ages and the days of this time become always the same text. The navigation goes: where it wraps, it would
#: move all pages by parts of a pixel.
_STILL = r"""() => {
  document.querySelector(".top")?.remove();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    node.data = node.data
      .replace(/\b20(2[4-9]|[3-9]\d)-\d\d-\d\d( \d\d:\d\d:\d\d)?/g,
        (text) => "2026-01-02 03:04:05".slice(0, text.length))
      .replace(/^\d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)$/, "02 Jan")
      .replace(/\b\d+ (d|h|min|s)( \d+ (min|h|s))? ago/g, "1 min ago");
  }
}"""
_DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))"


def take(page: Page, of: Locator) -> Image.Image:
    """A picture of a part of a page."""
    page.evaluate(_STILL)
    page.evaluate(_DRAWN)
    shot = of.screenshot(animations="disabled", scale="css")
    return coarse(Image.open(io.BytesIO(shot)).convert("RGB"))


def coarse(picture: Image.Image) -> Image.Image:
    """The picture with fewer colours, so that it is small as a file."""
    levels = [min(255, (value + COARSE // 2) // COARSE * COARSE) for value in range(256)]
    return picture.point(levels * 3)


def keep(picture: Image.Image, name: str) -> None:
    """Keep it for comparisons to come."""
    FOLDER.mkdir(exist_ok=True)
    picture.quantize(256, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


def kept(name: str) -> Image.Image | None:
    """The kept picture, if there is one."""
    path = FOLDER / f"{name}.png"
    return Image.open(path).convert("RGB") if path.exists() else None


def difference(before: Image.Image, now: Image.Image) -> str:
    """What is different to a person's eye; empty if nothing is."""
    if before.size != now.size:
        return "it is {} x {} pixels, and was {} x {}".format(*now.size, *before.size)
    off = np.abs(_means(before) - _means(now)).max(axis=2) > SHADES
    if off.sum() * 1000 <= PER_MILLE * off.size:
        return ""
    rows, columns = np.nonzero(off)
    box = [SQUARE * int(each) for each in (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)]
    return f"{off.sum()} of {off.size} squares differ, all within {box} (left, top, right, bottom)"


def _means(picture: Image.Image) -> Floats:
    """The mean colour of each square, rows x columns x 3; what is left at the edges is filled with white."""
    pixels = np.asarray(picture, np.float64)
    rows, columns = (-(-side // SQUARE) for side in pixels.shape[:2])
    whole = np.full((rows * SQUARE, columns * SQUARE, 3), 255.0)
    whole[: pixels.shape[0], : pixels.shape[1]] = pixels
    means: Floats = whole.reshape(rows, SQUARE, columns, SQUARE, 3).mean(axis=(1, 3))
    return means
