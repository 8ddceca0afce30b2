"""Checkpoints of the namenode: its journal becomes part of its image, and old pieces of it are deleted.

A namenode does that only when it starts; else a secondary namenode does it for it. Nothing here needs one
that runs for ever: started with the order to make a checkpoint, it ends when it has made one.
"""

from __future__ import annotations

import json
import subprocess

from sluice.runtime.settings import Settings
from sluice.stack import health
from sluice.stack.daemons.hdfs import PROFILER, configure, hadoop_java
from sluice.stack.environment import own_environment
from sluice.stack.jars import require

SECONDARY_CLASS = "org.apache.hadoop.hdfs.server.namenode.SecondaryNameNode"
SECONDS = 1_800.0


class CheckpointFailed(RuntimeError):
    """The namenode's journal could not be made part of its image."""


def checkpoint(settings: Settings) -> str:
    """Make one; returns what was done. Clients notice nothing. Raises CheckpointFailed."""
    if "hdfs" in settings.external:
        return "HDFS is external: its own people make checkpoints"
    require("hadoop")
    configure(settings)
    variables = {name: value for name, value in own_environment(settings).items() if name != PROFILER}
    argv = hadoop_java(settings, SECONDARY_CLASS, "-checkpoint", "force")
    before = _newest_image(settings)
    try:
        done = subprocess.run(
            argv, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CheckpointFailed(f"the checkpoint of HDFS did not end within {SECONDS:g} s") from error
    if done.returncode:
        last = ([*done.stdout.splitlines(), *done.stderr.splitlines()] or ["no answer"])[-1]
        raise CheckpointFailed(
            f"the checkpoint of HDFS failed: {last[:300]}. The namenode's journal grows until one succeeds; "
            "see `sluice status` for the namenode"
        )
    if _newest_image(settings) <= before:  # the secondary ends well even when its image is refused
        raise CheckpointFailed(
            "the namenode did not take the checkpoint, its own log says why; its journal grows until it does"
        )
    return "the namenode's journal is part of its image"


def _newest_image(settings: Settings) -> int:
    """The number of the last transaction in the namenode's newest image."""
    bean = health.jmx(settings.hdfs.webhdfs, "Hadoop:service=NameNode,name=NameNodeInfo")
    return int(json.loads(bean["JournalTransactionInfo"])["MostRecentCheckpointTxId"])
