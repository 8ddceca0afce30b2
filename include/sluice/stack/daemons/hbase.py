"""HBase over HDFS: ZooKeeper, master and region server in one JVM, and the Thrift gateway."""

from __future__ import annotations

from sluice.runtime.jvm import HBASE_OPENS, java_command
from sluice.runtime.settings import Settings
from sluice.stack import health, templating
from sluice.stack.daemon import Command, Daemon
from sluice.stack.daemons.hdfs import PROFILER, hadoop_conf
from sluice.stack.daemons.same_clock import await_same_clock
from sluice.stack.daemons.zookeeper_files import set_aside_headless, set_aside_without_snapshot
from sluice.stack.jars import require


def configure(settings: Settings) -> None:
    conf = hadoop_conf(settings, settings.home / "conf" / "hbase")
    # HBase looks its own address up in reverse, and 127.0.0.1 resolves to localhost.
    host = settings.host("hbase")
    hostname = "localhost" if host == "127.0.0.1" else host
    templating.write(settings, "hbase-site.xml", conf / "hbase-site.xml", hostname=hostname)
    for page in ("master", "regionserver", "static", "thrift"):
        (conf / "hbase-webapps" / page).mkdir(parents=True, exist_ok=True)


def server(settings: Settings) -> Command:
    argv = _java(settings, "org.apache.hadoop.hbase.master.HMaster", "start", heap=settings.heaps.hbase)
    return Command(argv, unset=(PROFILER,))


def thrift(settings: Settings) -> Command:
    address = ["-b", settings.listens("hbase-thrift"), "-p", str(settings.port("hbase_thrift"))]
    return Command(
        _java(
            settings,
            "org.apache.hadoop.hbase.thrift.ThriftServer",
            "start",
            *address,
            heap=settings.heaps.hbase_thrift,
        )
    )


def _java(settings: Settings, main_class: str, *args: str, heap: str) -> list[str]:
    require("hbase")
    conf = settings.home / "conf" / "hbase"
    return java_command("hbase", main_class, args, heap=heap, options=HBASE_OPENS, classpath=[conf])


HBASE = Daemon(
    name="hbase",
    service="hbase",
    ports=("hbase_master", "hbase_master_http", "hbase_regionserver", "zookeeper"),
    depends_on=("namenode", "datanode"),
    prepare=(configure, set_aside_without_snapshot, set_aside_headless, await_same_clock),
    command=server,
    health=health.hbase,
    for_clients=False,
    # It is a part of this process. It ends when ZooKeeper or HDFS kept it waiting, and no other one begins.
    for_good=health.NO_REGION_SERVER,
    data=("data/zookeeper",),
    stop_seconds=60,
)
HBASE_THRIFT = Daemon(
    name="hbase-thrift",
    service="hbase",
    ports=("hbase_thrift",),
    depends_on=("hbase",),
    prepare=(configure,),
    command=thrift,
    health=health.hbase_thrift,
)
