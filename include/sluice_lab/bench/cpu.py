"""The CPU time that each part of an instance takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import psutil

from sluice.runtime import detached
from sluice.runtime.detached import TOKEN
from sluice.runtime.settings import Settings
from sluice.stack.environment import DAEMON
from sluice.stack.memory import ProcessFamily

#: A part of the platform, by the beginning of a daemon's or a job's name.
PARTS = {
    "flume-collector": "collectors",
    "flume-": "edges",
    "kafka": "Kafka",
    "hbase-thrift": "HBase's Thrift server",
    "hbase": "HBase",
    "postgres": "PostgreSQL",
    "archiver": "archiver",
    "namenode": "HDFS",
    "datanode": "HDFS",
    "airflow": "Airflow",
    "sql": "SQL endpoint",
    "metastore": "metastore",
}
SPEED = "speed_layer"
WORKERS = "sluice.spark.worker_daemon"


class Cpu:
    """CPU seconds by part, user and system, with those of processes that ended meanwhile."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._family = ProcessFamily(settings)
        self._parts: dict[int, str] = {}

    def seconds(self) -> defaultdict[str, float]:
        """What each part has taken so far; the difference of two calls is what it took between them.

        The time of a process that ended is in its parent's account of its children.
        """
        found: defaultdict[str, float] = defaultdict(float)
        jobs = self._jobs()
        for pid in self._family.pids():
            try:
                process = psutil.Process(pid)
                if pid not in self._parts:
                    self._parts[pid] = part(process.environ(), process.cmdline(), jobs)
                found[self._parts[pid]] += sum(process.cpu_times()[:4])
            except psutil.Error:
                continue
        return found

    def _jobs(self) -> dict[str, str]:
        """Names of detached jobs, by their tokens."""
        run = self._settings.home / "run"
        return {record.token: name for name in detached.names(run) if (record := detached.read(name, run))}


def part(environment: Mapping[str, str], command: list[str], jobs: Mapping[str, str]) -> str:
    """The part that a process belongs to."""
    if command and command[0].startswith("postgres"):  # it writes its title over its environment
        return "PostgreSQL"
    name = jobs.get(environment.get(TOKEN, "")) or environment.get(DAEMON, "").rpartition(":")[2]
    if name == SPEED:
        if command and command[0].endswith("java"):
            return "speed layer's JVM"
        return "speed layer's workers" if WORKERS in command else "speed layer's driver"
    return next((shown for begin, shown in PARTS.items() if name.startswith(begin)), "other")


def between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What each part took between two calls of `Cpu.seconds`, the most expensive first."""
    taken = {name: after[name] - before.get(name, 0.0) for name in after}
    return dict(sorted(taken.items(), key=lambda item: -item[1]))
