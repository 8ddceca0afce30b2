"""Damage in the middle of a store's file, which no power cut does: whole records follow it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

#: How many times its length a file is compared with checksums at most.
_TIMES = 8


class MiddleDamage(RuntimeError):
    """From byte `bad` on the file is not what was written, and from byte `whole` on it is again.

    The file is left as it is. cut: how long it must be to count as torn at `bad`, if a person wants that.
    """

    def __init__(self, path: Path, bad: int, whole: int, cut: int) -> None:
        super().__init__(
            f"{path} is damaged at byte {bad:,}, and from byte {whole:,} on it is whole again. No power cut "
            "does that, so nothing is changed. Put the file back from a copy. Or go on without all that "
            f"follows: keep a copy of it, run `truncate -s {cut} {path}`, and start again. See the runbook, "
            "'After a power cut'"
        )
        self.bad, self.whole = bad, whole


def first_whole(
    data: bytes, pattern: bytes, end: Callable[[int], int], whole: Callable[[int, int], bool], begin: int = 0
) -> int | None:
    """Where the first whole record begins, at any byte from `begin` on.

    pattern: what each record begins with. end: where the record ends that may begin there, 0 if none can.
    whole: whether one with these bounds is what was written, by its checksum. The time that this takes grows
    with the data only: where too much only looks like a record, which no power cut leaves, it counts as one.
    """
    left = _TIMES * len(data)
    for found in re.finditer(b"(?s)(?=" + pattern + b")", data[begin:]):
        at = begin + found.start()
        if not at < (after := end(at)) <= len(data):
            continue
        left -= after - at
        if left < 0 or whole(at, after):
            return at
    return None
