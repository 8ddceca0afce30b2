"""The files that the templates render from the settings."""

from __future__ import annotations

import re
import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from pydantic import ValidationError

from sluice.runtime.sections import Heaps
from sluice.runtime.settings import Settings, given
from sluice.stack import jars, secrets, supervisord, templating
from sluice.stack.catalogue import DAEMONS
from sluice.stack.daemons import hbase, hdfs, hive, kafka
from sluice.stack.environment import environment

#: tests/runtime/test_passwords.py tests the hashes themselves.
pytestmark = pytest.mark.usefixtures("quick_passwords")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    first = Settings(instance="test", home=tmp_path / "var <&> test")
    secrets.make(first)
    return Settings(instance="test", home=first.home)


def properties(path: Path) -> dict[str, str]:
    """A Hadoop configuration file as a dictionary."""
    found = ET.parse(path).getroot().findall("property")  # noqa: S314 - our own file
    return {each.findtext("name", ""): each.findtext("value", "") for each in found}


def test_hadoop_listens_where_the_settings_say(settings: Settings) -> None:
    hdfs.configure(settings)
    conf = settings.home / "conf" / "hadoop"
    assert properties(conf / "core-site.xml")["fs.defaultFS"] == settings.hdfs.namenode
    site = properties(conf / "hdfs-site.xml")
    assert site["dfs.namenode.http-address"] == f"127.0.0.1:{settings.port('namenode_http')}"
    listening = [value for name, value in site.items() if name.endswith(("address", "bind-host"))]
    assert len(listening) == 8
    assert all(value.startswith("127.0.0.1") for value in listening)


def test_a_path_with_special_characters_stays_whole_in_xml(settings: Settings) -> None:
    hdfs.configure(settings)
    site = properties(settings.home / "conf" / "hadoop" / "hdfs-site.xml")
    assert site["dfs.namenode.name.dir"] == f"file://{settings.home}/data/namenode"


def test_hbase_names_the_host_as_the_resolver_does(settings: Settings) -> None:
    hbase.configure(settings)
    site = properties(settings.home / "conf" / "hbase" / "hbase-site.xml")
    assert site["hbase.master.hostname"] == "localhost"
    assert site["hbase.rootdir"].startswith(settings.hdfs.namenode)


def test_the_metastore_and_its_clients_agree(settings: Settings) -> None:
    hive.configure_metastore(settings)
    hive.configure_spark(settings)
    server = properties(settings.home / "conf" / "metastore" / "metastore-site.xml")
    client = properties(settings.home / "conf" / "spark" / "hive-site.xml")
    assert server["metastore.thrift.uris"] == client["hive.metastore.uris"] == settings.hive.metastore
    assert server["metastore.warehouse.dir"] == client["hive.metastore.warehouse.dir"]
    assert server["javax.jdo.option.ConnectionUserName"] == "metastore"
    assert server["javax.jdo.option.ConnectionPassword"] == settings.postgres.metastore.password


def test_kafka_advertises_what_its_clients_are_told(settings: Settings) -> None:
    kafka.configure(settings)
    text = (settings.home / "conf" / "kafka" / "server.properties").read_text()
    assert f"advertised.listeners=PLAINTEXT://{settings.kafka.bootstrap}," in text
    assert "log.message.timestamp.type=LogAppendTime" in text
    assert f"message.max.bytes={settings.kafka.max_message_bytes}\n" in text


@pytest.mark.parametrize("synced", [True, False])
def test_stores_write_to_disk_before_they_answer_unless_they_are_told_not_to(
    synced: bool, settings: Settings
) -> None:
    told = settings.model_copy(update={"sync_writes": synced})
    for daemon in (kafka, hdfs, hbase):
        daemon.configure(told)
    conf = told.home / "conf"
    kafka_s = (conf / "kafka" / "server.properties").read_text()
    assert ("\nlog.flush.interval.messages=1\n" in kafka_s) is synced
    said = "true" if synced else "false"
    assert properties(conf / "hadoop" / "hdfs-site.xml")["dfs.datanode.synconclose"] == said
    assert properties(conf / "hbase" / "hbase-site.xml")["hbase.wal.hsync"] == said


@pytest.fixture
def reached(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """HDFS and HBase are reached by jobs on other hosts. No jar is there, and none is needed."""
    for daemon in (hbase, hive):
        monkeypatch.setattr(daemon, "require", Path)
    return Settings(instance="test", home=settings.home, hadoop_host="10.0.0.1")


def test_hdfs_and_hbase_alone_listen_where_other_hosts_reach_them(reached: Settings) -> None:
    hdfs.configure(reached)
    hbase.configure(reached)
    conf = reached.home / "conf"
    site = properties(conf / "hadoop" / "hdfs-site.xml")
    assert site.pop("dfs.namenode.secondary.http-address") == "127.0.0.1:0"  # it only makes checkpoints
    listening = [value for name, value in site.items() if name.endswith(("address", "bind-host"))]
    assert len(listening) == 7
    assert all(value.startswith("10.0.0.1") for value in listening)
    assert site["dfs.datanode.hostname"] == "10.0.0.1"  # a read is redirected there
    assert site["dfs.client.use.datanode.hostname"] == "true"
    site = properties(conf / "hbase" / "hbase-site.xml")
    address = re.compile(r".*(ipc\.address|bindAddress|PortAddress|ipaddress|hostname|quorum)")
    found = {name: value for name, value in site.items() if address.fullmatch(name)}
    assert len(found) == 8
    assert found.pop("hbase.regionserver.thrift.ipaddress") == "10.0.0.1"
    assert set(found.values()) == {"127.0.0.1", "localhost"}  # jobs ask the Thrift server alone
    assert hbase.thrift(reached).argv[-3] == "10.0.0.1"


def test_nothing_else_listens_where_other_hosts_reach_hdfs_and_hbase(reached: Settings) -> None:
    kafka.configure(reached)
    hive.configure_spark(reached)
    conf = reached.home / "conf"
    (listeners,) = re.findall(r"^listeners=(.*)$", (conf / "kafka" / "server.properties").read_text(), re.M)
    ports = reached.port("kafka"), reached.port("kafka_controller")
    assert listeners == "PLAINTEXT://127.0.0.1:{},CONTROLLER://127.0.0.1:{}".format(*ports)
    assert "listen_addresses = '127.0.0.1'" in templating.render(
        reached, "postgresql.conf", hosts=None, door_connections=1, secured=False
    )
    local = templating.render(reached, "pg_hba.conf", hosts=None, local="127.0.0.1/32")
    assert re.findall(r"(?m)^host.* (\S+) scram-sha-256$", local) == ["127.0.0.1/32"] * 3
    assert "spark.driver.bindAddress 127.0.0.1" in (conf / "spark" / "spark-defaults.conf").read_text()
    assert f"-javaagent:metastore/{jars.AGENT}=127.0.0.1" in hive.metastore(reached).argv
    site = properties(conf / "spark" / "hive-site.xml")
    assert site["hive.server2.thrift.bind.host"] == "127.0.0.1"
    variables = environment(reached)
    assert variables["AIRFLOW__API__HOST"] == variables["SPARK_LOCAL_IP"] == "127.0.0.1"
    for part in (reached.kafka.bootstrap, reached.hive.metastore, reached.postgres.host, reached.airflow.url):
        assert "127.0.0.1" in part


def test_clients_are_told_where_hdfs_and_hbase_listen(reached: Settings) -> None:
    assert reached.hdfs.namenode == f"hdfs://10.0.0.1:{reached.port('namenode')}"
    assert reached.hdfs.webhdfs == f"http://10.0.0.1:{reached.port('namenode_http')}"
    assert (reached.hbase.host, reached.host("hbase")) == ("10.0.0.1", "127.0.0.1")
    assert "10.0.0.1" in environment(reached)["NO_PROXY"].split(",")


@pytest.mark.parametrize("address", ["0.0.0.0", "work1", "10.0.0.300", "::1"])  # noqa: S104
def test_an_address_that_nobody_can_be_told_is_refused(address: str) -> None:
    with pytest.raises(
        ValidationError, match=rf"hadoop_host\n.*'{address}' .* give one IPv4 address of this"
    ):
        Settings(instance="test", hadoop_host=address)


def test_a_rendered_file_is_for_its_owner_only(settings: Settings) -> None:
    hive.configure_metastore(settings)
    path = settings.home / "conf" / "metastore" / "metastore-site.xml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_supervisor_runs_every_daemon_by_the_entry_point(settings: Settings) -> None:
    text = supervisord.configure(settings, list(DAEMONS.values())).read_text()
    for name in DAEMONS:
        assert f"-m sluice.stack run {name}\n" in text
    assert "inet_http_server" not in text


def test_a_long_path_does_not_break_the_supervisor_s_socket(tmp_path: Path) -> None:
    deep = Settings(instance="test", home=tmp_path / ("x" * 120))
    other = Settings(instance="test", home=tmp_path / ("y" * 120))
    assert len(str(supervisord.socket_path(deep))) <= supervisord.LONGEST_SOCKET
    assert supervisord.socket_path(deep) != supervisord.socket_path(other)
    folder = supervisord.socket_path(deep).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)  # as one that another user made first
    with pytest.raises(supervisord.ForeignSocket, match=str(folder)):
        supervisord.socket_path(deep)
    for path in (folder, supervisord.socket_path(other).parent):
        path.rmdir()


def test_an_unknown_value_in_a_template_is_an_error(settings: Settings) -> None:
    with pytest.raises(Exception, match="'level' is undefined"):
        templating.render(settings, "log4j2.properties")


def test_a_child_process_belongs_to_the_instance(settings: Settings) -> None:
    variables = environment(settings)
    assert variables["SLUICE_INSTANCE"] == "test"
    assert variables["HADOOP_CONF_DIR"] == str(settings.home / "conf" / "spark")
    assert not Path(variables["SPARK_CONF_DIR"]).exists()  # else the class archive would not fit
    assert variables["HADOOP_USER_NAME"] == settings.hdfs.user
    assert variables["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert all(isinstance(value, str) for value in variables.values())


def test_only_overridden_settings_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_KAFKA__BOOTSTRAP", "kafka1:9092")
    monkeypatch.setenv("SLUICE_EXTERNAL", '["kafka"]')
    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    found = given()
    assert found["SLUICE_KAFKA__BOOTSTRAP"] == "kafka1:9092"
    assert found["SLUICE_EXTERNAL"] == '["kafka"]'
    assert "SLUICE_INSTANCE" not in found


@pytest.mark.parametrize("memory", ["479m", "0g", "512", "", "-1g", "2t", "1.5g"])
def test_less_memory_than_a_task_of_sql_needs_is_refused(memory: str) -> None:
    with pytest.raises(ValidationError, match="give at least 480m"):
        Settings(instance="test", spark={"sql_task_memory": memory})
    assert Settings(instance="test", spark={"sql_task_memory": "1G"}).spark.sql_task_memory == "1G"


JVMS = [kafka.command, hdfs.namenode, hdfs.datanode, hbase.server, hbase.thrift, hive.metastore]


def test_each_daemon_s_jvm_takes_the_heap_that_the_settings_give(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (kafka, hdfs, hbase, hive):
        monkeypatch.setattr(module, "require", lambda component: Path("/lib") / component)
    names = list(Heaps.model_fields)
    given = {name: f"{900 + n}m" for n, name in enumerate(names)}
    own = settings.model_copy(update={"heaps": Heaps(**given)})
    heaps = [next(word for word in made(own).argv if word.startswith("-Xmx")) for made in JVMS]
    assert heaps == [f"-Xmx{memory}" for memory in given.values()]


@pytest.mark.parametrize("memory", ["", "1", "63m", "m", "1t", "-1g", "0.5g", " 1g"])
def test_a_heap_that_is_none_or_too_small_is_refused(memory: str) -> None:
    with pytest.raises(ValueError, match=r"heaps\.namenode\n.*give at least 64m, such as 512m or 2g"):
        Settings(instance="test", heaps={"namenode": memory})
