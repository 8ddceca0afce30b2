"""Ends the namenode's safe mode where it would last for ever: blocks are lost, and all others are reported.

A namenode that starts takes no change until 99.9 % of its blocks are reported. After a power cut that took
the ends of finished blocks that never comes true, and the whole platform waits. Safe mode is right as long as
blocks may still come: before they do, the namenode would drop the last block of a file that is being written.
So it ends only once a datanode has reported blocks and no further one came for a while.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping

from sluice.runtime.settings import Settings
from sluice.stack import health
from sluice.stack.daemon import Unhealthy
from sluice.stack.daemons.hdfs import PROFILER, configure, hadoop_java
from sluice.stack.environment import own_environment
from sluice.stack.jars import require

ADMIN_CLASS = "org.apache.hadoop.hdfs.tools.DFSAdmin"
#: How long no further block may have been reported. A datanode reports all of a disk at once.
STILL_SECONDS = 40.0
LEAVE_SECONDS = 120.0
#: What the namenode says of itself while it waits for blocks.
WAITS = "reported blocks"


class SafeModeExit:
    """Called with the daemons' problems after each round of the watch."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._report, self._since = "", 0.0

    def __call__(self, problems: Mapping[str, str]) -> None:
        if not problems.get("namenode") or "hdfs" in self._settings.external:
            self._report = ""
            return
        try:
            info = health.jmx(self._settings.hdfs.webhdfs, "Hadoop:service=NameNode,name=NameNodeInfo")
        except Unhealthy:
            return
        report = reported(info)
        if report != self._report:
            self._report, self._since = report, time.monotonic()
        elif report and time.monotonic() - self._since >= STILL_SECONDS:
            self._report = ""
            self._leave(report)

    def _leave(self, report: str) -> None:
        self._say(f"the namenode's safe mode is ended, because no further block is reported: {report}")
        require("hadoop")
        configure(self._settings)
        variables = own_environment(self._settings)
        variables.pop(PROFILER, None)
        argv = hadoop_java(self._settings, ADMIN_CLASS, "-safemode", "leave")
        try:
            done = subprocess.run(
                argv, env=variables, capture_output=True, text=True, timeout=LEAVE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            self._say(f"the namenode did not end its safe mode within {LEAVE_SECONDS:g} s; it is tried again")
            return
        if done.returncode:
            said = ([*done.stdout.splitlines(), *done.stderr.splitlines()] or ["no answer"])[-1]
            self._say(f"the namenode did not end its safe mode: {said[:300]}; it is tried again")


def reported(info: Mapping[str, object]) -> str:
    """What the namenode says of a safe mode in which it waits for blocks, of which some were reported.

    Empty if it is in none, or in another one: a person began that, or its disk is full.
    """
    nodes, said = json.loads(str(info.get("LiveNodes") or "{}")), str(info.get("Safemode") or "")
    waits = WAITS in said and any(node.get("numBlocks") for node in nodes.values())
    return said if waits else ""
