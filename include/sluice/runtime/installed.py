"""What is installed: Sluice's own version, and whether the packages have those of requirements.txt."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

REQUIREMENTS = "requirements.txt"


@functools.cache
def own_version() -> str:
    """Sluice's version, as pyproject.toml had it when this environment was made."""
    return version("sluice")


def differing(requirements: str) -> Iterator[str]:
    """What differs, a line each. requirements: the file's text."""
    for line in requirements.splitlines():
        if not line or line.startswith("#"):
            continue
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate():
            continue
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            yield f"{wanted.name} is missing"
            continue
        if not wanted.specifier.contains(found, prereleases=True):
            yield f"{wanted.name} is {found}, not {str(wanted.specifier).removeprefix('==')}"


def show() -> None:
    """Print what differs from the file in this directory."""
    for each in differing(Path(REQUIREMENTS).read_text()):
        print(each)
