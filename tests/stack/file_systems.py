"""Stands for the file systems of an instance: each of its folders may be in one of its own, of any size."""

from __future__ import annotations

import pytest

from sluice.stack import disks
from sluice.stack.disks import Disk

GIB = 1 << 30


class FakeDisks:
    """What `disks.look` finds, until it is changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[Disk] = []
        monkeypatch.setattr(disks, "look", lambda settings: list(self.found))

    def are(self, **free: float) -> None:
        """A disk of 100 GiB for each folder, `home` or of a store, with so many GiB free and 2 in reserve."""
        self.found = [
            Disk((name if name == "home" else f"data/{name}",), 100 * GIB, int(gib * GIB), 2 * GIB)
            for name, gib in free.items()
        ]
