"""How soon work that repeats is done again."""

from __future__ import annotations

#: What took a second is followed by at least so many seconds of pause. Under load batches so become larger,
#: and a line cheaper: much of a batch's cost, and of a projection's, is for each series that it touches.
REST = 2.5
#: The longest such pause, in seconds: so results of a large instance still follow their lines soon.
LONGEST = 2.0


def pause_after(took: float, beat: float) -> float:
    """Seconds to wait after work that took so long and should begin at most once in `beat` seconds."""
    return max(beat - took, min(took * REST, LONGEST))
