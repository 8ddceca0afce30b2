"""What the tests of containers share: the image, and the figures that they measure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.containers import base
from tests.containers.building import build, inspect
from tests.containers.page import MEASURED
from tests.containers.podman import IMAGE


@pytest.fixture(scope="session")
def figures() -> Iterator[dict[str, float]]:
    """Figures by name, which says the unit; printed and written at the end."""
    found: dict[str, float] = {}
    yield found
    MEASURED.parent.mkdir(exist_ok=True)
    MEASURED.write_text(json.dumps(found, indent=1) + "\n")
    print("\n" + "\n".join(f"{name:<60} {value:>10,.0f}" for name, value in found.items()))


@pytest.fixture(scope="session")
def image(figures: dict[str, float]) -> dict[str, Any]:
    """The image, built from nothing, as podman describes it."""
    base.ensure()
    figures["image: built, s"] = build(IMAGE)
    made = inspect(IMAGE)
    figures["image: size, MB"] = made["Size"] / 1e6
    return made
