"""Holds intake and the layers while a disk is nearly full, and lets them go on once there is space again.

The watch runs it, every other second, so that the disk does not fill between two looks. It asks the kernel
and nothing else, because a daemon whose disk is full may not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, Queue

from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.stack import disks
from sluice.stack.disks import GIB, Disk

BEAT_SECONDS = 2.0
#: A hold ends once so much more is free than when it began: else it would begin again with the next lines.
SPACE_AGAIN = 1.25
REMEDY = "make space, or a larger disk (runbook, A full disk); it goes on by itself"


class DiskGuard:
    """Decides what is held. What an earlier process held stays held until there is space."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._fault = ""
        before = holds.reason(settings.home, Hold.LAYERS)  # of a watch that ended meanwhile
        self._full = {folder for disk in disks.look(settings) for folder in disk.folders if folder in before}
        self._emptied: Queue[str] = Queue()

    def start(self) -> None:
        """Look for ever, in a thread of its own."""
        threading.Thread(target=self._go_on, name="disk guard", daemon=True).start()

    def look(self) -> None:
        """Look once."""
        found, home = disks.look(self._settings), self._settings.home
        self._note_full(found)
        for what in Hold:
            before = holds.reason(home, what)
            short = [disk for disk in found if disk.free < disk.level(what) * (SPACE_AGAIN if before else 1)]
            if not short and before:
                holds.release(home, what)
                self._say(f"there is space again: {what} no longer held")
            elif short and (why := _why(what, min(short, key=lambda disk: disk.free))) != before:
                holds.hold(home, what, why)
                if not before:
                    self._say(f"{what} held: {why}")

    def emptied(self) -> set[str]:
        """The folders that have space again after their disk was full; each is told once."""
        found = set[str]()
        with suppress(Empty):
            while True:
                found.add(self._emptied.get_nowait())
        return found

    def _note_full(self, found: Iterable[Disk]) -> None:
        full = {folder for disk in found if disk.full for folder in disk.folders}
        for folder in self._full - full:
            self._emptied.put(folder)
        self._full = full

    def _go_on(self) -> None:
        while True:
            fault = ""
            try:
                self.look()
            except OSError as error:  # a file system that went away comes back
                fault = f"disks cannot be looked at: {error}"
            if fault and fault != self._fault:
                self._say(fault)
            self._fault = fault
            time.sleep(BEAT_SECONDS)


def _why(what: Hold, disk: Disk) -> str:
    """It does not change while the disk fills, so a hold is written once."""
    again = SPACE_AGAIN * disk.level(what) / GIB
    return (
        f"the disk of {', '.join(disk.folders)} has less than {disk.level(what) / GIB:.2f} GiB left, and "
        f"needs {again:.2f}: {REMEDY}"
    )
