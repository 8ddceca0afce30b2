"""The console's styles and scripts: its own from `static/`, and uPlot from its webjar.

All are read once and live at an address that has a digest of them. So a browser may keep them for ever, and
asks for others as soon as one of them changed.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sluice.stack.jars import JarsMissing, require

STATIC = Path(__file__).parent / "static"
COMPONENT = "console"
#: Which files of a webjar are served, and by which names.
WEBJARS = {
    "uplot": {
        "uplot.css": "dist/uPlot.min.css",
        "uplot.js": "dist/uPlot.iife.min.js",
        "uplot.license.txt": "LICENSE",
    }
}
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

log = logging.getLogger(__name__)


class Assets(NamedTuple):
    """Files by name, and a digest of them all."""

    files: Mapping[str, bytes]
    digest: str


@functools.cache
def assets() -> Assets:
    """What the pages load. Without the webjars the pages work, but draw no charts."""
    files = {each.name: each.read_bytes() for each in sorted(STATIC.iterdir()) if each.suffix in TYPES}
    try:
        files |= _from_webjars(require(COMPONENT))
    except JarsMissing as missing:
        log.warning("the console draws no charts: %s", missing)
    digest = hashlib.blake2b(digest_size=8)
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)} ".encode() + content)
    return Assets(files, digest.hexdigest())


def _from_webjars(folder: Path) -> dict[str, bytes]:
    found = {}
    for webjar, wanted in WEBJARS.items():
        (file,) = folder.glob(f"{webjar}-[0-9]*.jar")
        version = file.stem.removeprefix(f"{webjar}-")
        with zipfile.ZipFile(file) as jar:
            for name, path in wanted.items():
                found[name] = jar.read(f"META-INF/resources/webjars/{webjar}/{version}/{path}")
    return found
