"""Health checks, each in its daemon's own protocol.

A check returns if the daemon works, else it raises. It is one attempt that gives up after SECONDS. It opens
its own connection and leaves nothing behind.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from sluice.runtime.settings import Settings
from sluice.stack.daemon import Unhealthy
from sluice.transmission import clients

SECONDS = 5.0
NO_REGION_SERVER = "no region server is registered"
#: HBase stops its metrics for half a second when a region was opened or closed (its JmxCacheBuster).
METRICS_AWAY_SECONDS = 2.0
#: The number of a table's properties in what the metastore says of it.
TABLE_PARAMETERS = 9
#: How long Kafka's client looks for a broker.
BOOTSTRAP_MILLISECONDS = 2_000
# Client libraries log that a daemon is not there yet, but the exception says so too.
for _library in ("thrift", "kafka"):
    logging.getLogger(_library).addHandler(logging.NullHandler())


def postgres(settings: Settings) -> None:
    """Log in with the password and run a query."""
    import psycopg2

    own = settings.postgres
    if "postgres" in settings.external:  # Sluice's database may have to be created there
        own = own.model_copy(update={"database": "postgres"})
    try:
        connection = psycopg2.connect(own.url("postgresql"), connect_timeout=int(SECONDS))
    except psycopg2.OperationalError as error:
        raise Unhealthy(str(error).strip()) from error
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()


def kafka(settings: Settings) -> None:
    """Ask for ApiVersions and Metadata: a broker is registered with the controller."""
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    milliseconds = int(SECONDS * 1000)
    try:
        admin = KafkaAdminClient(
            **clients.options(settings.kafka),
            bootstrap_timeout_ms=BOOTSTRAP_MILLISECONDS,
            request_timeout_ms=milliseconds,
        )
    except KafkaError as error:
        raise Unhealthy(f"{settings.kafka.bootstrap}: {error}") from error
    try:
        if not admin.describe_cluster()["brokers"]:
            raise Unhealthy("no broker is registered with the controller")
    except KafkaError as error:
        raise Unhealthy(str(error)) from error
    finally:
        admin.close()


def namenode(settings: Settings) -> None:
    """WebHDFS answers, safe mode is over and a datanode is alive."""
    status = get_json(
        f"{settings.hdfs.webhdfs}/webhdfs/v1/", op="GETFILESTATUS", **{"user.name": settings.hdfs.user}
    )
    if "FileStatus" not in status:
        raise Unhealthy(f"WebHDFS answered {status}")
    if "hdfs" in settings.external:
        return  # an external namenode may not show its JMX
    state = jmx(settings.hdfs.webhdfs, "Hadoop:service=NameNode,name=FSNamesystemState")
    if state["FSState"] != "Operational":
        raise Unhealthy(f"in {state['FSState']}: {state['BlocksTotal']} blocks are being reported")
    if not state["NumLiveDataNodes"]:
        raise Unhealthy("no datanode is alive")


def datanode(settings: Settings) -> None:
    """The datanode's own page says that it is registered with the namenode and hears from it."""
    url = f"http://{settings.host('datanode')}:{settings.port('datanode_http')}"
    actors = json.loads(jmx(url, "Hadoop:service=DataNode,name=DataNodeInfo")["BPServiceActorInfo"])
    if not actors or any(actor["ActorState"] != "RUNNING" for actor in actors):
        raise Unhealthy("not registered with the namenode")


def hbase(settings: Settings) -> None:
    """ZooKeeper serves, the master is active and initialised, a region server is registered."""
    if "Mode:" not in four_letters(settings.host("hbase"), settings.port("zookeeper"), "srvr"):
        raise Unhealthy("ZooKeeper does not serve yet")
    url = f"http://{settings.host('hbase')}:{settings.port('hbase_master_http')}"
    master = jmx(url, "Hadoop:service=HBase,name=Master,sub=Server", METRICS_AWAY_SECONDS)
    if master.get("tag.isActiveMaster") != "true":
        raise Unhealthy("the master is not active yet")
    if not master.get("masterFinishedInitializationTime"):
        raise Unhealthy("the master is still initialising")
    if not master.get("numRegionServers"):
        raise Unhealthy(NO_REGION_SERVER)


def hbase_thrift(settings: Settings) -> None:
    """Ask for the tables' names, which the gateway gets from the master."""
    import happybase
    from Hbase_thrift import IOError as HBaseIOError
    from thriftpy2.thrift import TException

    try:
        connection = happybase.Connection(
            settings.hbase.host, settings.hbase.port, timeout=int(SECONDS * 1000)
        )
        connection.tables()
        connection.close()
    except (TException, HBaseIOError, OSError) as error:
        raise Unhealthy(getattr(error, "message", None) or str(error)) from error


def metastore(settings: Settings) -> None:
    """Ask for the databases' names, which the metastore reads from its own database."""
    metastore_databases(settings)


def metastore_databases(settings: Settings) -> frozenset[str]:
    """The names of the databases that the metastore has. Raises Unhealthy."""
    from thrift.Thrift import TType

    with _metastore_says(settings, "get_all_databases") as (protocol, field, number):
        if number != 0 or field != TType.LIST:
            raise Unhealthy("get_all_databases failed: see the metastore's log")
        _, size = protocol.readListBegin()
        return frozenset(protocol.readString() for _ in range(size))


def metastore_mark(settings: Settings) -> str:
    """The mark of the metastore's catalogue (`storage.hive.MARK`); "" before it has one. Raises Unhealthy."""
    from thrift.Thrift import TType

    from sluice.storage.hive import MARK, MARKED

    asked = ("get_table", settings.hive.database, MARKED)
    with _metastore_says(settings, *asked) as (protocol, field, number):
        if number != 0 or field != TType.STRUCT:
            return ""  # an exception: there is no such table yet
        protocol.readStructBegin()
        while True:
            _, kind, of_table = protocol.readFieldBegin()
            if kind == TType.STOP:
                return ""
            if of_table == TABLE_PARAMETERS and kind == TType.MAP:
                *_, size = protocol.readMapBegin()
                found = {protocol.readString(): protocol.readString() for _ in range(size)}
                return str(found.get(MARK, ""))
            protocol.skip(kind)


@contextmanager
def _metastore_says(settings: Settings, call: str, *texts: str) -> Iterator[tuple[Any, int, int]]:
    """The metastore's answer to a call with these arguments: what reads it, and its type and number.

    A result has number 0, an exception another one. Raises Unhealthy.
    """
    from urllib.parse import urlsplit

    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TMessageType, TType
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TTransportException

    address = urlsplit(settings.hive.metastore)
    plain = TSocket(address.hostname, address.port)
    plain.setTimeout(int(SECONDS * 1000))
    transport = TBufferedTransport(plain)
    protocol = TBinaryProtocol(transport)
    try:
        transport.open()
        protocol.writeMessageBegin(call, TMessageType.CALL, 0)
        protocol.writeStructBegin("arguments")
        for number, text in enumerate(texts, 1):
            protocol.writeFieldBegin("", TType.STRING, number)
            protocol.writeString(text)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
        protocol.writeMessageEnd()
        transport.flush()
        _, kind, _ = protocol.readMessageBegin()
        if kind != TMessageType.REPLY:
            raise Unhealthy(f"{call} failed: see the metastore's log")
        protocol.readStructBegin()
        _, field, number = protocol.readFieldBegin()
        yield protocol, int(field), int(number)
    except (TTransportException, OSError) as error:
        raise Unhealthy(str(error)) from error
    finally:
        transport.close()


def sql(settings: Settings) -> None:
    """Open a session, ask for the databases' names, and for the mark of the instance's own catalogue.

    An endpoint that came up on another catalogue would answer, and every table would be empty.
    """
    from pyhive.exc import Error
    from thrift.transport.TTransport import TTransportException

    from sluice.storage.hive import MARK, MARKED, connect

    own = settings.hive.database
    asked = "metastore" not in settings.external
    wanted, mark = metastore_mark(settings) if asked else "", ""
    try:
        connection = connect(settings.hive, 2 * SECONDS)  # the very first session loads Hive's classes
        try:
            cursor = connection.cursor()
            cursor.execute("SHOW DATABASES")
            shown = {str(name) for (name,) in cursor.fetchall()}
            if wanted and own in shown:
                cursor.execute(f"SHOW TABLES IN {own} LIKE '{MARKED}'")
                if cursor.fetchall():
                    cursor.execute(f"SHOW TBLPROPERTIES {own}.{MARKED}")
                    mark = dict(cursor.fetchall()).get(MARK, "")
        finally:
            connection.close()
    except (TTransportException, Error, OSError) as error:
        said = getattr(error.args[0] if error.args else None, "status", None)
        raise Unhealthy(said.errorMessage if said else str(error)) from error
    if mark != wanted or (asked and not wanted and own in metastore_databases(settings) - shown):
        raise Unhealthy(
            f"it does not show the database {own} that the metastore at {settings.hive.metastore} has: it "
            "uses another catalogue"
        )


def airflow(settings: Settings, component: str) -> None:
    """Airflow's own report says that the component is healthy: it has a recent heartbeat."""
    url = f"{settings.airflow.url}/api/v2/monitor/health"
    report = get_json(url, settings.airflow.root_certificate)
    state = (report.get(component) or {}).get("status")
    if state != "healthy":
        raise Unhealthy(f"{component} is {state or 'unknown'}")


def get_json(url: str, authority: str = "", **query: str) -> dict[str, Any]:
    """The JSON object at a URL, never fetched through a proxy.

    authority: the file of the one that an https server's certificate must be of; "": one of the system's.
    """
    try:
        context = ssl.create_default_context(cafile=authority or None) if url.startswith("https:") else None
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
        with opener.open(f"{url}?{urlencode(query)}" if query else url, timeout=SECONDS) as answer:
            return dict(json.load(answer))
    except (URLError, OSError, ValueError) as error:
        raise Unhealthy(f"{url}: {error}") from error


def jmx(url: str, bean: str, away_seconds: float = 0.0) -> dict[str, Any]:
    """One bean of a Hadoop daemon's /jmx page, which may be missing there for `away_seconds`."""
    deadline = time.monotonic() + away_seconds
    while not (beans := get_json(f"{url}/jmx", qry=bean).get("beans")):
        if time.monotonic() >= deadline:
            raise Unhealthy(f"{url} does not report {bean} yet")
        time.sleep(away_seconds / 10)
    return dict(beans[0])


def four_letters(host: str, port: int, word: str) -> str:
    """ZooKeeper's answer to one of its four-letter words."""
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    except OSError as error:
        raise Unhealthy(f"ZooKeeper at {host}:{port}: {error}") from error
