"""HDFS and the Thrift server listen where jobs on other hosts reach them, and nothing else does."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import happybase
import psutil
import pytest

from sluice.runtime import jvm
from sluice.runtime.settings import HADOOP, LOOPBACK, SETTINGS_FILE, Settings
from sluice.stack import entry
from sluice.storage.hdfs import HdfsStore
from sluice_lab.ports import port_base
from sluice_lab.waiting import SECONDS, until

pytestmark = [pytest.mark.stack, pytest.mark.long]

ADDRESS = "127.0.2.1"  # of this machine, and not where the other daemons listen
NAMES = ("namenode", "datanode", "hbase", "hbase-thrift", "kafka")
ENTRY = (sys.executable, "-m", "sluice.stack")


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """The variables of an instance that has no daemon in common with the tests' own."""
    (tmp_path / "include").mkdir()
    shutil.copy(SETTINGS_FILE, tmp_path / "include")
    return {
        "SLUICE_ROOT": str(tmp_path),
        "SLUICE_LIB": str(jvm.LIB),
        "SLUICE_INSTANCE": "reached",
        "SLUICE_PORT_BASE": str(port_base()),
        "SLUICE_NETWORK": "host",
    }


@contextmanager
def running(own: dict[str, str], address: str) -> Iterator[tuple[Settings, dict[str, set[str]]]]:
    """The daemons, healthy: their settings, and the addresses where others reach each."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environment = {**others, **own, "SLUICE_HADOOP_HOST": address}
    settings = Settings(
        instance="reached",
        home=Path(own["SLUICE_ROOT"]) / "var" / "reached",
        port_base=int(own["SLUICE_PORT_BASE"]),
        hadoop_host=address,
    )
    with ExitStack() as ends:
        started = {}
        for name in NAMES:
            said = ends.enter_context(_log(own, name).open("w"))
            # In a session of its own, because a daemon stops what is left of its former one.
            process = subprocess.Popen(
                [*ENTRY, "run", name], env=environment, stdout=said, stderr=said, start_new_session=True
            )
            ends.callback(process.wait, SECONDS)
            ends.callback(process.terminate)
            started[name] = process

        def healthy() -> bool:
            ended = [name for name, process in started.items() if process.poll() is not None]
            assert not ended, [
                (started[name].returncode, _log(own, name).read_text()[-1500:]) for name in ended
            ]
            if any(
                entry.check(settings, name) for name in NAMES
            ):  # it is asked often, and a process costs more
                return False
            return not subprocess.run([*ENTRY, "health", *NAMES], env=environment, check=False).returncode

        until(healthy, 3 * SECONDS, what="all are healthy")
        yield settings, {name: _listens(process.pid) for name, process in started.items()}


def _log(own: dict[str, str], name: str) -> Path:
    return Path(own["SLUICE_ROOT"]) / f"{name}.out"


def _listens(pid: int) -> set[str]:
    """Where, but for 127.0.0.1: a DataNode's web server always has a part there."""
    connections = psutil.Process(pid).net_connections("tcp")
    found = {each.laddr.ip.removeprefix("::ffff:") for each in connections if each.status == "LISTEN"}
    return found - {LOOPBACK, "::1"}


def test_they_listen_there_alone_and_have_what_was_written_before(own: dict[str, str]) -> None:
    with running(own, "") as (before, listens):
        assert listens == {name: set() for name in NAMES}
        HdfsStore(before.hdfs.webhdfs, before.hdfs.user).write("/before", b"a line")
        hbase = happybase.Connection(before.hbase.host, before.hbase.port)
        hbase.create_table("t", {"f": {}})
        hbase.table("t").put(b"row", {b"f:q": b"before"})
    with running(own, ADDRESS) as (now, listens):
        assert listens == {name: {ADDRESS} if name in HADOOP else set() for name in NAMES}
        hdfs = HdfsStore(now.hdfs.webhdfs, now.hdfs.user)
        assert (ADDRESS in now.hdfs.webhdfs, hdfs.read("/before")) == (True, b"a line")
        hdfs.write("/after", b"another line")
        assert hdfs.read("/after") == b"another line"
        table = happybase.Connection(now.hbase.host, now.hbase.port).table("t")
        assert (now.hbase.host, table.row(b"row")) == (ADDRESS, {b"f:q": b"before"})
        table.put(b"row", {b"f:q": b"after"})
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((ADDRESS, now.port("kafka")))
