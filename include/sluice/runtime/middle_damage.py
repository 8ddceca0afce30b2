"""Damage in the middle of a store's file, which no power cut does: whole records follow it."""

from __future__ import annotations

from pathlib import Path


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
