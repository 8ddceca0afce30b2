"""Ends the namenode's safe mode where it would last for ever: blocks are lost, and all others are reported.

A namenode that starts takes no change until 99.9 % of its blocks are reported. After a power cut that took
the ends of finished blocks that never comes true, and the whole platform waits. Safe mode is right as long as
blocks may still come: before they do, the namenode would drop the last block of a file that is being written.
So it ends only once a datanode has reported blocks and no further one came for a while.

If the namenode's journal lost its end, too, datanodes have blocks that are newer than all it knows. It keeps
its safe mode then even if it is told to leave, because it deletes such blocks afterwards. Their files are in
no journal any more, so nobody could read them. But a person may have put an older journal there: so an alert
says what will be lost, and the exit is forced ten minutes later. The blocks go at once then, since the
namenode gives their numbers again, and the datanode would refuse to write blocks of these numbers.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping

from sqlalchemy.exc import SQLAlchemyError

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
#: How long the alert must have been there before blocks are deleted that a person could still save.
FORCE_SECONDS = 600.0
#: How often the datanode is asked to report what it has.
ASKED = 3
#: What the namenode says of itself while it waits for blocks.
WAITS = "reported blocks"
#: What it says of the bytes of blocks that are newer than all it knows.
_NEWER = re.compile(r"cause loss of (\d+) byte")
#: What `dfsadmin` prints if it is over. It ends with 0 if not, too.
OVER = "Safe mode is OFF"


class SafeModeExit:
    """Called with the daemons' problems after each round of the watch.

    alert: raises the alert with this message that files are lost; may raise SQLAlchemyError.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None], alert: Callable[[str], None]) -> None:
        self._settings, self._say, self._alert = settings, say, alert
        self._report, self._since = "", 0.0
        self._alerted: float | None = None  # when

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
            self._report, self._since, self._alerted = report, time.monotonic(), None
        elif report and time.monotonic() - self._since >= STILL_SECONDS:
            lost = newer_bytes(report)
            if not lost or self._may_force(lost):
                self._report = ""
                self._leave(report, lost)

    def _may_force(self, lost: int) -> bool:
        """Whether it was told for long enough what is lost then, in bytes; tells it."""
        if self._alerted is None:
            try:
                self._alert(forgotten(lost))
                self._alerted = time.monotonic()
            except SQLAlchemyError as error:  # nothing is deleted untold
                why = str(error).splitlines()[0]
                self._say(f"the namenode's safe mode stays, as its alert cannot be raised: {why}")
        return self._alerted is not None and time.monotonic() - self._alerted >= FORCE_SECONDS

    def _leave(self, report: str, lost: int) -> None:
        self._say(f"the namenode's safe mode is ended, because no further block is reported: {report}")
        if problem := self._told("-safemode", "forceExit" if lost else "leave", answer=OVER):
            self._say(f"the namenode did not end its safe mode{problem}; it is tried again")
        elif lost:
            node = f"{self._settings.host('datanode')}:{self._settings.port('datanode_ipc')}"
            for _ in range(ASKED):
                if not (problem := self._told("-triggerBlockReport", node)):
                    return
            self._say(
                f"the datanode was not told to report its blocks{problem}: until it does by itself, within "
                "six hours, HDFS may refuse to write"
            )

    def _told(self, *action: str, answer: str = "") -> str:
        """Tell the namenode; returns what is wrong. answer: what it must say."""
        require("hadoop")
        configure(self._settings)
        variables = own_environment(self._settings)
        variables.pop(PROFILER, None)
        argv = hadoop_java(self._settings, ADMIN_CLASS, *action)
        try:
            done = subprocess.run(
                argv, env=variables, capture_output=True, text=True, timeout=LEAVE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f" within {LEAVE_SECONDS:g} s"
        if done.returncode or answer not in done.stdout:
            said = ([*done.stdout.splitlines(), *done.stderr.splitlines()] or ["no answer"])[-1]
            return f": {said[:300]}"
        return ""


def reported(info: Mapping[str, object]) -> str:
    """What the namenode says of a safe mode in which it waits for blocks and some were reported.

    Empty if it is in none, or in another one: a person began that, or its disk is full.
    """
    nodes, said = json.loads(str(info.get("LiveNodes") or "{}")), str(info.get("Safemode") or "")
    any_came = any(node.get("numBlocks") for node in nodes.values()) or newer_bytes(said)
    return said if WAITS in said and any_came else ""


def newer_bytes(report: str) -> int:
    """How many bytes of blocks datanodes have that are newer than all that the namenode knows."""
    found = _NEWER.search(report)
    return int(found[1]) if found else 0


def forgotten(lost: int) -> str:
    """The alert's message. lost: bytes."""
    return (
        f"HDFS's journal lost its end: datanodes have {lost:,} bytes of blocks of files that it does not "
        f"have. {FORCE_SECONDS / 60:g} minutes after this alert HDFS goes on without these files, and "
        "deletes the blocks. If somebody put an older copy into data/namenode, run `sluice down` before, and "
        "put the newer one back. Else the files are lost: `sluice archive verify` says what the archive "
        "lacks, and `sluice archive repair` takes it from Kafka again. See the runbook, 'After a power cut'"
    )
