"""A broker with the listener for other hosts: what a host's user may do, and who else is let in.

The broker is the tests' own, without a stack around it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ResourceType, ScramMechanism, UserScramCredentialDeletion
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)

from sluice.collection.agent import LOCAL, Agent
from sluice.runtime.settings import Settings
from sluice.stack import health
from sluice.stack.daemons import kafka
from sluice.transmission import clients, listener
from sluice.transmission.lag import archive_group, group_lag
from sluice.transmission.topics import Topics
from sluice_hosts import hosts
from sluice_hosts.agents import granting
from sluice_hosts.trust import broker, certificates, rights
from sluice_hosts.trust.broker import BrokerError
from sluice_lab.ports import port_base
from sluice_lab.waiting import until

pytestmark = pytest.mark.slow

SECONDS = 240.0
ADDRESS = "127.0.0.1"
COLLECTOR = Agent("collector1", "collector", "logs", "file", 1_000, 1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A broker that was told of host h1, with the topics `logs` and `other`."""
    settings = formatted(tmp_path_factory.mktemp("broker"), "h1")
    with running(settings):
        with Topics(settings) as topics:
            topics.create("logs")
            topics.create("other")
        yield settings


def formatted(home: Path, *names: str) -> Settings:
    """The settings of a broker that is about to start, and that was told of these hosts."""
    settings = Settings(instance="test", home=home, port_base=port_base())
    certificates.issue(home / "hosts", "local", ADDRESS)
    for number, name in enumerate(names, 1):
        certificates.issue(home / "hosts", name, f"127.0.1.{number}")
        broker.admit(settings, name)
    broker.listen(settings, ADDRESS)
    kafka.configure(settings)
    kafka.format_log(settings)
    (home / "tmp").mkdir()
    return settings


@contextmanager
def running(settings: Settings) -> Iterator[None]:
    """The broker; it is killed at the end."""
    home = settings.home
    with (home / "out").open("ab") as out:
        process = subprocess.Popen(kafka.command(settings).argv, stdout=out, stderr=out, cwd=home / "tmp")
    try:
        await_healthy(settings, process)
        yield
    finally:
        process.kill()
        process.wait(SECONDS)


def await_healthy(settings: Settings, running: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            health.kafka(settings)
            return
        except Exception:
            said = (settings.home / "out").read_text()[-2000:]
            assert running.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)


def options(settings: Settings, *, password: str = "", shows: bool = True) -> dict[str, Any]:
    """A client's, which logs in as the user of h1; ``shows``: its certificate."""
    own = settings.home / "hosts"
    pair = pkcs12.load_pkcs12((own / "h1" / certificates.IDENTITY).read_bytes(), certificates.PASSWORD)
    assert pair.key is not None
    assert pair.cert is not None
    authority, certificate = settings.home / "authority.pem", settings.home / "shown.pem"
    authority.write_bytes(pair.additional_certs[0].certificate.public_bytes(Encoding.PEM))
    certificate.write_bytes(
        pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + pair.cert.certificate.public_bytes(Encoding.PEM)
    )
    return {
        "bootstrap_servers": broker.bootstrap(settings, ADDRESS),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": broker.user("h1"),
        "sasl_plain_password": password or broker.password_file(settings, "h1").read_text(),
        "ssl_cafile": str(authority),
        **({"ssl_certfile": str(certificate)} if shows else {}),
    }


def send(client: dict[str, Any], topic: str, patience_ms: int = 60_000) -> None:
    producer = KafkaProducer(**client, max_block_ms=patience_ms, bootstrap_timeout_ms=patience_ms)
    try:
        producer.send(topic, b"a block").get(SECONDS)
    finally:
        producer.close(1)


def read(client: dict[str, Any], topic: str) -> None:
    with closing(KafkaConsumer(topic, **client, auto_offset_reset="earliest")) as consumer:
        for _ in range(60):
            assert not consumer.poll(1_000)


def test_a_user_writes_to_its_topics_and_does_nothing_else(served: Settings) -> None:
    assert rights.grant(served, {"h1": {"logs"}}) == ["h1"]
    assert rights.grant(served, {"h1": {"logs"}}) == []
    client = options(served)
    send(client, "logs")
    with pytest.raises(TopicAuthorizationFailedError):
        send(client, "other")
    with pytest.raises(TopicAuthorizationFailedError):
        read(client, "logs")
    with closing(KafkaAdminClient(**client)) as admin:
        assert admin.list_topics() == ["logs"]
        with pytest.raises(KafkaError):
            admin.create_topics({"mine": {"num_partitions": 1, "replication_factor": 1}})
        with pytest.raises(KafkaError):
            admin.describe_acls(rights._filter("h1", ResourceType.ANY, None))
    send({"bootstrap_servers": served.kafka.bootstrap}, "other")  # the platform itself may do everything

    assert rights.grant(served, {"h1": {"other"}}) == ["h1"]
    send(client, "other")
    with pytest.raises(TopicAuthorizationFailedError):
        send(client, "logs")


def test_a_job_s_user_reads_everything_in_sluice_s_groups_and_writes_nothing(
    served: Settings, tmp_path: Path
) -> None:
    """With the settings that a job on the host gets."""
    for name, content in certificates.files(served.home / "hosts", "h1").items():
        (tmp_path / name).write_bytes(content)
    settings = broker.from_elsewhere(served, "h1", tmp_path)
    assert broker.password(served, "h1") not in repr(settings)
    assert rights.grant(served, {"h1": {broker.ALL}}) == ["h1"]
    client = clients.options(settings.kafka)
    with pytest.raises(KafkaError, match="AuthorizationFailed"):
        send(client, "logs")
    with Topics(settings) as topics:
        assert topics.describe("other").partitions
    with pytest.raises(GroupAuthorizationFailedError), consumer(client, "theirs") as reads:
        reads.committed(TopicPartition("logs", 0))
    at = TopicPartition("logs", 0)
    with consumer(client, archive_group("logs")) as reads:
        send({"bootstrap_servers": served.kafka.bootstrap}, "logs")
        reads.assign([at])
        reads.commit({at: OffsetAndMetadata(0, "", -1)})
        assert reads.committed(at) == 0
    assert group_lag(settings, archive_group("logs"), "logs")[0].committed == 0

    rights.grant(served, {"h1": {"logs"}})
    send(client, "logs")
    with pytest.raises(GroupAuthorizationFailedError), consumer(client, archive_group("logs")) as reads:
        reads.committed(at)


def consumer(client: dict[str, Any], group: str) -> closing[KafkaConsumer]:
    return closing(KafkaConsumer(**client, group_id=group, enable_auto_commit=False))


@pytest.mark.parametrize("wrong", [{"password": "guessed"}, {"shows": False}])
def test_strangers_are_not_let_in(served: Settings, wrong: dict[str, Any]) -> None:
    rights.grant(served, {"h1": {"logs"}})
    with pytest.raises(KafkaTimeoutError):
        send(options(served, **wrong), "logs", patience_ms=4_000)


def test_a_user_that_is_dismissed_is_not_let_in(served: Settings) -> None:
    rights.grant(served, {"h1": {"logs"}})
    client = options(served)
    assert not kafka.outdated(served)
    rights.dismiss(served, "h1")
    rights.dismiss(served, "h1")
    assert broker.admitted(served) == []
    broker.listen(served, ADDRESS)
    assert listener.read(served.home) is None
    assert kafka.outdated(served)
    with pytest.raises(KafkaTimeoutError):
        send(client, "logs", patience_ms=4_000)
    broker.admit(served, "h1")  # as the other tests found it
    broker.listen(served, ADDRESS)


def test_users_are_let_in_after_a_restart_although_others_were_dismissed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [f"other{number}" for number in range(9)]
    settings = formatted(tmp_path, "h1", *others)
    with running(settings), Topics(settings) as topics:
        topics.create("logs")
        rights.grant(settings, {name: {"logs"} for name in ("h1", *others)})
        for name in others:
            rights.dismiss(settings, name)
    with running(settings):
        send(options(settings), "logs")
        assert rights.unknown(settings) == []

        delete_user(settings, "h1")  # as if Kafka had a backup from the time before
        list_hosts(settings, h1="collector")
        monkeypatch.setattr(granting, "deployed", lambda _: [COLLECTOR])
        said: list[str] = []
        granting.grant_rights(settings, said.append)
        assert [each.partition(":")[2] for each in said] == [
            " Kafka has forgotten it, and is told again",
            " Kafka knows it, with the rights that h1 needs",
        ]
        send(options(settings), "logs")


def delete_user(settings: Settings, host: str) -> None:
    deletion = UserScramCredentialDeletion(broker.user(host), ScramMechanism.SCRAM_SHA_512)
    with closing(KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)) as admin:
        admin.alter_user_scram_credentials([deletion])
    until(lambda: rights.unknown(settings) == [host])


def test_a_broker_that_is_away_is_named_and_left_alone_for_a_while(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights, "_REQUEST_MS", 300)
    broker.admit(settings, "h1")
    with pytest.raises(BrokerError, match=r"Kafka at 127\.0\.0\.1:29020 cannot be told of the hosts' users"):
        rights.grant(settings, {"h1": {"logs"}})
    said: list[str] = []
    granting.grant_rights(settings, said.append)
    assert not said, "it was asked although no collector is deployed"
    list_hosts(settings, h1="collector")
    monkeypatch.setattr(granting, "deployed", lambda _: [COLLECTOR])
    granting.grant_rights(settings, said.append)
    granting.grant_rights(settings, said.append)
    assert len(said) == 1


def list_hosts(settings: Settings, **roles: str) -> None:
    listed = [
        {"name": name, "address": f"127.0.1.{number}", "ssh": {"user": "me"}, "roles": own.split()}
        | ({"release": "/opt/sluice"} if "jobs" in own else {})
        for number, (name, own) in enumerate(roles.items(), 1)
    ]
    own = [{"name": LOCAL, "address": ADDRESS}]
    (settings.home / hosts.FILE).write_text(yaml.safe_dump(own + listed))


def test_each_role_has_the_rights_that_it_needs(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    list_hosts(settings, h1="collector", h2="jobs", h3="collector jobs", h4="edge")
    for name in ("h1", "h2", "h3", "h5"):
        broker.admit(settings, name)
    monkeypatch.setattr(granting, "deployed", lambda _: [COLLECTOR])
    given: list[object] = []
    monkeypatch.setattr(rights, "grant", lambda _, wanted: given.append(wanted) or [])
    granting.grant_rights(settings, print)
    assert given == [{"h1": {"logs"}, "h2": {broker.ALL}, "h3": {"logs", broker.ALL}}]
    with pytest.raises(BrokerError, match="Kafka does not know host-h2 yet, or not to read"):
        broker.check_granted(settings, "h2", broker.ALL)


def test_without_such_a_host_nothing_listens_more_than_before(settings: Settings) -> None:
    broker.listen(settings, ADDRESS)
    kafka.configure(settings)
    text = (settings.home / "conf" / "kafka" / "server.properties").read_text()
    assert "HOSTS" not in text
    assert "authorizer" not in text
    assert "sasl" not in text


def test_the_listener_follows_this_machine_s_certificate(settings: Settings) -> None:
    certificates.issue(settings.home / "hosts", "local", ADDRESS)
    broker.admit(settings, "h1")
    broker.listen(settings, ADDRESS)
    kafka.configure(settings)
    assert not kafka.outdated(settings)
    certificates.issue(settings.home / "hosts", "local", ADDRESS)
    broker.listen(settings, ADDRESS)
    assert kafka.outdated(settings)


def test_passwords_are_made_once_and_are_the_owner_s_alone(settings: Settings) -> None:
    with pytest.raises(BrokerError, match="host h1 has no user in Kafka: run `sluice hosts enrol h1`"):
        broker.login(settings, "h1")
    broker.admit(settings, "h1")
    path: Path = broker.password_file(settings, "h1")
    first = path.read_text()
    broker.admit(settings, "h1")
    assert (path.read_text(), path.stat().st_mode & 0o777) == (first, 0o600)
    assert f'username="host-h1" password="{first}"'.encode() in broker.login(settings, "h1")
