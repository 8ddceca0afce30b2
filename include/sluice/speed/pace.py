"""How soon work that repeats is done again."""

from __future__ import annotations

#: The least pause after work is REST times what it took, up to LONGEST seconds. Under load this enlarges
#: batches, so a line costs less: much of a batch's cost, and of a projection's, is for each series that it
#: touches.
REST = 2.5
#: The longest such pause, in seconds: so results of a large instance still follow their lines soon.
LONGEST = 2.0


def pause_after(took: float, beat: float) -> float:
    """Seconds to wait after work that took `took` seconds and should begin at most once in `beat` seconds."""
    return max(beat - took, min(took * REST, LONGEST))
