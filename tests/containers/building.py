"""Build the image of docker/Dockerfile, and look at it."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.containers import base
from tests.containers.podman import BASE, podman

SECONDS = 3000.0


def build(tag: str) -> float:
    """Build the image from nothing; returns the seconds."""
    began = time.monotonic()
    options = ("--network=host", f"--timestamp={base.LONG_AGO}", "--no-cache", f"--build-arg=BASE={BASE}")
    podman("build", "-q", *options, "-f", "docker/Dockerfile", "-t", tag, ".", seconds=SECONDS)
    return time.monotonic() - began


def inspect(tag: str) -> dict[str, Any]:
    """What podman knows of the image."""
    return dict(json.loads(podman("image", "inspect", tag))[0])
