"""Stop the instance that the tests use: ``python -m tests.take_down``."""

from __future__ import annotations

from sluice.stack.networking import network
from tests.bring_up import instance_settings, take_down

if __name__ == "__main__":
    chosen = instance_settings()
    network.enter(chosen)
    take_down(chosen)
