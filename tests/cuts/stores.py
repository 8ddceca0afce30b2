"""Daemons of one's own that lose their power: killed at once, and the ends of their files gone.

After a power cut a file may be shorter than it was. Or it has its length, which was on the disk, and zeros at
its end, where the data were not.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from sluice.monitoring.damaged_files import corrupt_files
from sluice.runtime import jvm
from sluice.runtime.settings import SETTINGS_FILE, Settings
from sluice.stack import entry, health, secrets
from sluice.stack.safe_mode import SafeModeExit
from sluice_lab.ports import port_base
from sluice_lab.waiting import until

START_SECONDS = 150.0
#: How often a daemon may end as it starts; supervisord starts it again.
ENDS = 2
LOOK_SECONDS = 2.0
ENTRY = (sys.executable, "-m", "sluice.stack", "run")


class OwnDaemons:
    """An instance in a folder with these daemons alone, in the order in which they start."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        (root / "include").mkdir()
        shutil.copy(SETTINGS_FILE, root / "include")
        self.root, self.names, base = root, names, port_base()
        own = {
            "SLUICE_ROOT": str(root),
            "SLUICE_LIB": str(jvm.LIB),
            "SLUICE_INSTANCE": "cut",
            "SLUICE_PORT_BASE": str(base),
            "SLUICE_NETWORK": "host",
            "JAVA_TOOL_OPTIONS": jvm.QUICK,
        }
        others = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self.environment = {**others, **own}
        where = {"home": root / "var" / "cut", "root": root}
        secrets.make_missing(Settings(instance="cut", port_base=base, network="host", **where))
        # With the passwords that were made.
        self.settings = Settings(instance="cut", port_base=base, network="host", **where)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def home(self) -> Path:
        return self.settings.home

    def log(self, name: str) -> Path:
        """What the daemon said, in all its starts."""
        return self.root / f"{name}.out"

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")

    def start(self) -> None:
        """Start all, as supervisord does, and return once they are healthy."""
        ends = dict.fromkeys(self.names, 0)

        def healthy() -> bool:
            for name in self.names:
                running = self._running.get(name)
                if running is not None and running.poll() is None:
                    continue
                ends[name] += running is not None
                assert ends[name] <= ENDS, f"{name} ends again and again:\n{self.said(name)[-3000:]}"
                self._run(name)
            return not any(entry.check(self.settings, name) for name in self.names)

        until(healthy, START_SECONDS, lambda: {n: entry.check(self.settings, n) for n in self.names}, 0.3)

    def _run(self, name: str) -> None:
        with self.log(name).open("ab") as out:
            # In a session of its own, because a daemon stops what is left of its former one.
            self._running[name] = subprocess.Popen(
                [*ENTRY, name], env=self.environment, stdout=out, stderr=out, start_new_session=True
            )

    def stop(self) -> None:
        """Stop all in order, the last one first, so that nothing is left to recover."""
        for name in reversed(self.names):
            self._running[name].terminate()
            self._running.pop(name).wait(START_SECONDS)

    def signal(self, name: str, number: signal.Signals) -> None:
        self._running[name].send_signal(number)

    def kill(self) -> None:
        """kill -9 of all at once, with their children."""
        for running in self._running.values():
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGSTOP)  # none goes on while the others are looked for
        found = []
        for running in self._running.values():
            if running.poll() is None:
                root = psutil.Process(running.pid)
                found += [root, *root.children(recursive=True)]
        for each in found:
            each.kill()
        for running in self._running.values():
            running.wait()
        psutil.wait_procs(found)
        self._running.clear()


@contextmanager
def own_daemons(root: Path, *names: str) -> Iterator[OwnDaemons]:
    """The daemons, healthy; killed at the end."""
    made = OwnDaemons(root, names)
    try:
        made.start()
        yield made
    finally:
        made.kill()


@contextmanager
def watched(own: OwnDaemons) -> Iterator[list[str]]:
    """The watch looks after the namenode; yields what it says and alerts."""
    said, over = list[str](), threading.Event()
    leave = SafeModeExit(own.settings, said.append, said.append)

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            leave({"namenode": entry.check(own.settings, "namenode") or ""})

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield said
    finally:
        over.set()
        thread.join()


def lost_files(own: OwnDaemons) -> list[str]:
    """Those of HDFS that lack blocks, as the namenode knows."""
    return corrupt_files(health.jmx(own.settings.hdfs.webhdfs, "Hadoop:service=NameNode,name=NameNodeInfo"))
