"""What other packages join to the core, which imports none of them: entry points of the group `sluice`."""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import Any

GROUP = "sluice"


@functools.cache
def joined(name: str) -> Any | None:
    """What is joined under that name; None if no installed package joins anything there.

    Raises ValueError if two packages do, because nothing says which one is meant.
    """
    found = entry_points(group=GROUP, name=name)
    if len(found) > 1:
        values = ", ".join(sorted(each.value for each in found))
        raise ValueError(f"{GROUP}: {name!r} is joined by {values}: uninstall all but one of them")
    return next((each.load() for each in found), None)
