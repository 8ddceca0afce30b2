"""HDFS: a namenode and a datanode."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sluice.runtime.jvm import HADOOP_OPENS, java_command
from sluice.runtime.settings import Settings
from sluice.stack import health, templating
from sluice.stack.daemon import Command, Daemon
from sluice.stack.daemons.lost_journal import set_aside_empty_journal
from sluice.stack.daemons.unfinished_blocks import cut_torn_blocks
from sluice.stack.jars import require

NAMENODE_CLASS = "org.apache.hadoop.hdfs.server.namenode.NameNode"
#: With this variable the web servers of HDFS and HBase run a profiler for whoever asks.
PROFILER = "ASYNC_PROFILER_HOME"
DATANODE_CLASS = "org.apache.hadoop.hdfs.server.datanode.DataNode"


def configure(settings: Settings) -> None:
    conf = hadoop_conf(settings, settings.home / "conf" / "hadoop")
    for page in ("hdfs", "datanode", "static"):  # the web servers refuse to start without them
        (conf / "webapps" / page).mkdir(parents=True, exist_ok=True)


def hadoop_conf(settings: Settings, conf: Path) -> Path:
    """Write the configuration that all clients and servers of HDFS read; returns `conf`."""
    for name in ("core-site.xml", "hdfs-site.xml", "log4j.properties"):
        templating.write(settings, name, conf / name)
    return conf


def format_namenode(settings: Settings) -> None:
    if not (settings.home / "data" / "namenode" / "current" / "VERSION").exists():
        argv = hadoop_java(settings, NAMENODE_CLASS, "-format", "-force", "-nonInteractive")
        subprocess.run(argv, check=True)


def namenode(settings: Settings) -> Command:
    require("hadoop")
    return Command(hadoop_java(settings, NAMENODE_CLASS), unset=(PROFILER,))


def datanode(settings: Settings) -> Command:
    require("hadoop")
    return Command(hadoop_java(settings, DATANODE_CLASS), unset=(PROFILER,))


def hadoop_java(settings: Settings, main_class: str, *args: str) -> list[str]:
    """The command of a JVM with this class of Hadoop, in the configuration of HDFS."""
    conf = settings.home / "conf" / "hadoop"
    return java_command(
        "hadoop",
        main_class,
        args,
        heap=settings.heaps.namenode if main_class == NAMENODE_CLASS else settings.heaps.datanode,
        options=HADOOP_OPENS,
        classpath=[conf],
        quick=main_class == NAMENODE_CLASS,
    )


NAMENODE = Daemon(
    name="namenode",
    service="hdfs",
    ports=("namenode", "namenode_http"),
    prepare=(configure, format_namenode, set_aside_empty_journal),
    command=namenode,
    health=health.namenode,
    data=("data/namenode",),
)
# It does not wait for the namenode, which leaves safe mode only once the datanode has reported its blocks.
DATANODE = Daemon(
    name="datanode",
    service="hdfs",
    ports=("datanode", "datanode_http", "datanode_ipc"),
    prepare=(configure, cut_torn_blocks),
    command=datanode,
    health=health.datanode,
    for_clients=False,
    # It would refuse for ever to recover such a block, and HBase's start waits for those of its log.
    after_full="its disk was full, and it takes blocks for longer or shorter than their files are",
    data=("data/datanode",),
)
