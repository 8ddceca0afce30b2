"""What a long-running process tells Python's collector of cyclic garbage."""

from __future__ import annotations

import gc

#: New objects until the collector looks at them; Python's own 700 is for programs that make few.
NEW_OBJECTS = 50_000


def loaded() -> None:
    """Say that all is loaded: what exists now stays, and the collector never looks at it again.

    Modules leave some hundred thousand objects, which the collector would search again and again while the
    process makes the short-lived objects of requests and records.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
