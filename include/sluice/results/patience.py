"""How long those who read results wait for a store that is away."""

from __future__ import annotations

#: A person is waiting, so this is less than the layers wait.
PATIENCE_SECONDS = 10.0
