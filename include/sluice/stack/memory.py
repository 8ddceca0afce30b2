"""The memory of all processes of an instance, sampled while something runs."""

from __future__ import annotations

import threading
import time
from types import TracebackType

import psutil

from sluice.runtime.settings import Settings

SAMPLE_SECONDS = 4.0
SETTLED_SECONDS = 15.0


class ProcessFamily:
    """Finds every process of an instance.

    These are the daemons, Airflow's workers, Spark's drivers and Python workers. They inherit SLUICE_INSTANCE
    from their starter. A process that does not pass its environment on names the instance's directory in its
    command line, or is a child of a process that does. A process is examined again until it is
    SETTLED_SECONDS old, because a fork has its parent's environment until it becomes another program. It is
    not examined after that: with hundreds of processes this is most of the work.
    """

    def __init__(self, settings: Settings) -> None:
        self._instance = settings.instance
        self._home = str(settings.home)
        self._known: dict[tuple[int, float], bool] = {}

    def pids(self) -> set[int]:
        """The instance's living processes."""
        now: dict[tuple[int, float], bool] = {}
        parents: dict[int, int] = {}
        for process in psutil.process_iter():
            try:
                key = process.pid, process.create_time()
                parents[process.pid] = process.ppid()
                if key not in self._known or time.time() - key[1] < SETTLED_SECONDS:
                    now[key] = self._marked(process)
                else:
                    now[key] = self._known[key]
            except psutil.Error:
                continue
        self._known = now
        ours = {pid for (pid, _), marked in now.items() if marked}
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        return ours

    def _marked(self, process: psutil.Process) -> bool:
        if process.environ().get("SLUICE_INSTANCE") == self._instance:
            return True
        return any(self._home in word for word in process.cmdline())


def proportional_bytes(pid: int) -> int:
    """The process's PSS: its own pages and its share of the pages that it shares with others.

    The sum of PSS over processes is the memory that they really take; a sum of RSS counts a library forty
    times if forty Python processes share it. Falls back to RSS where the kernel does not give the PSS.
    """
    try:
        process = psutil.Process(pid)
        try:
            return int(process.memory_full_info().pss)
        except psutil.AccessDenied:
            return int(process.memory_info().rss)
    except psutil.Error:
        return 0


class PeakMemory:
    """Measures the peak memory of the instance, in bytes, while the block runs.

    It is the largest sum of PSS over all processes of the instance.
    """

    def __init__(self, settings: Settings, every: float = SAMPLE_SECONDS) -> None:
        self.peak_bytes = 0
        self._family = ProcessFamily(settings)
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, self._family.pids())))
