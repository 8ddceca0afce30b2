"""A clone of this repository that is brought from commit to commit, as a user does who upgrades.

Its environment is made without a network, which the tests do not have: uv finds the packages in its cache and
Maven the jars in its repository, where `make setup` of this checkout put them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.beside import OTHERS

SETUP_SECONDS = 600.0
#: Variables that choose Python's modules or packages, or that a `make` above gives to this one.
_FOREIGN = (*OTHERS, "PYTHON", "VIRTUAL_ENV", "MAKE", "MFLAGS")
_CUT = re.compile(r"^## \[(\d[\d.]*)\]", re.MULTILINE)


class NoRelease(LookupError):
    """The repository does not say what was released last."""


@dataclass(frozen=True)
class Checkout:
    """The clone's folder, and the environment in which its commands run."""

    folder: Path
    environment: dict[str, str]

    @property
    def python(self) -> str:
        return str(self.folder / ".venv" / "bin" / "python")

    def bring_to(self, commit: str) -> None:
        _git(self.folder, "checkout", "--quiet", "--detach", commit)

    def set_up(self) -> None:
        """Run `make setup`, as the user does who came to another commit."""
        done = subprocess.run(
            ["make", "--no-print-directory", "setup"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SETUP_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def cloned(root: Path, folder: Path) -> Checkout:
    """A clone of what is committed, with an empty environment of Python's and uv in it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    made = Checkout(folder, own | {"UV_OFFLINE": "1"})
    _git(root, "clone", "--quiet", "--no-hardlinks", f"{root}", f"{folder}")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=folder, env=own, check=True)
    shutil.copy(Path(sys.prefix) / "bin" / "uv", folder / ".venv" / "bin")
    (folder / ".venv" / ".created").touch()  # that this was done is what the Makefile looks for
    return made


def released(root: Path) -> tuple[str, str]:
    """The last release's version, and the commit that cut it. Raises NoRelease, which says why."""
    found = _CUT.search((root / "CHANGELOG.md").read_text())
    if found is None:
        raise NoRelease("the changelog has no release")
    try:
        if _git(root, "rev-parse", "--is-shallow-repository") == "true":
            raise NoRelease("the history is shallow: `git fetch --unshallow`")
        cuts = _git(root, "log", f"-S{found[0]}", "--format=%H", "--", "CHANGELOG.md").splitlines()
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoRelease(f"git knows no history of {root}: {error}") from error
    if not cuts:
        raise NoRelease(f"no commit of the history cut {found[1]}")
    return found[1], cuts[-1]


def head(root: Path) -> str:
    return _git(root, "rev-parse", "HEAD")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", f"{root}", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
