"""Copy the styles and scripts of the Data Docs' pages into the site.

They come from the webjars in ``var/lib/data_docs`` and lie at ``static/lib/<webjar>/<path in it>``. A page
that took them from public networks would tell strangers when it is read, and would have no style on a
machine without a network.
"""

from __future__ import annotations

import logging
import shutil
import zipfile
from pathlib import Path

from sluice.runtime.jvm import STAMP
from sluice.stack.jars import JarsMissing, require

COMPONENT = "data_docs"
# In the order in which the pages load them.
STYLES = (
    "bootstrap-table/dist/bootstrap-table.min.css",
    "bootstrap/dist/css/bootstrap.min.css",
    "bootstrap-table/dist/extensions/filter-control/bootstrap-table-filter-control.min.css",
    "bootstrap-datepicker/css/bootstrap-datepicker.min.css",
    "font-awesome/css/fontawesome.min.css",
    "font-awesome/css/solid.min.css",
)
SCRIPTS = (
    "jquery/dist/jquery.min.js",
    "popper.js/dist/umd/popper.min.js",
    "bootstrap/dist/js/bootstrap.min.js",
    "bootstrap-table/dist/bootstrap-table.min.js",
    "bootstrap-table/dist/extensions/filter-control/bootstrap-table-filter-control.min.js",
    "bootstrap-datepicker/js/bootstrap-datepicker.min.js",
)
# What the styles load in their turn.
FONTS = ("font-awesome/webfonts/fa-solid-900.woff2",)

log = logging.getLogger(__name__)


def place(site: Path) -> None:
    """Put the files below the site unless the same files are there already.

    The caller holds the site's lock. Without the webjars the pages can still be written, so their lack is
    only a warning: the pages link to the files anyway, say what is missing, and are whole as soon as the
    files are there.
    """
    try:
        _place(require(COMPONENT), site / "static" / "lib")
    except JarsMissing as missing:
        log.warning("the Data Docs lack styles and scripts: %s", missing)


def _place(webjars: Path, target: Path) -> None:
    assets = (*STYLES, *SCRIPTS, *FONTS)
    stamp = "\n".join(((webjars / STAMP).read_text(), *assets))
    if (target / STAMP).exists() and (target / STAMP).read_text() == stamp:
        return
    fresh = target.with_name("lib.new")
    shutil.rmtree(fresh, ignore_errors=True)
    for asset in assets:
        (fresh / asset).parent.mkdir(parents=True, exist_ok=True)
        (fresh / asset).write_bytes(_read(webjars, asset))
    (fresh / STAMP).write_text(stamp)
    shutil.rmtree(target, ignore_errors=True)
    fresh.replace(target)


def _read(webjars: Path, asset: str) -> bytes:
    """An asset's content, from the one version of its webjar that the pom names."""
    webjar, path = asset.split("/", 1)
    for file in webjars.glob(f"{webjar}-[0-9]*.jar"):
        version = file.stem.removeprefix(f"{webjar}-")
        with zipfile.ZipFile(file) as jar:
            return jar.read(f"META-INF/resources/webjars/{webjar}/{version}/{path}")
    raise JarsMissing(f"{webjars} has no {webjar}: run `make setup`")
