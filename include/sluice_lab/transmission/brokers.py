"""Three real brokers on loopback, in one cluster (KRaft), with data that is deleted afterwards."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from sluice_lab.ports import free_ports
from sluice_lab.processes import LaboratoryFailed, end_with_laboratory
from sluice_lab.transmission.rivals import command

BROKERS = 3
#: Kafka's default beat of 3 s, at the laboratory's scale of time.
BEAT_MS = 1_200
#: A member is dropped after five beats without one.
SESSION_MS = 6_000
_HEAP = "256m"
_START_SECONDS, _STOP_SECONDS = 180.0, 20.0
_TRY_MS, _RETRY_MS = 10_000, 500
_CLUSTER = "c2x1aWNlLWxhYi0wMDAwMQ"  # any 16 bytes in base64
_LOCAL = "127.0.0.1"

_PROPERTIES = """\
process.roles={roles}
node.id={node}
controller.quorum.voters=1@{host}:{controller}
listeners={listeners}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
log.segment.bytes=8388608
log.retention.bytes=16777216
log.retention.check.interval.ms=30000
log.segment.delete.delay.ms=1000
# The default of 128 MiB does not fit into the heap, and the cleaner would die of it.
log.cleaner.dedupe.buffer.size=16777216
# On a busy machine a broker may be silent for longer than the default of 9 s, and would lose its partitions.
broker.session.timeout.ms=60000
num.network.threads=2
num.io.threads=2
# All contenders have the same beat, so that they differ in assignor and protocol and not in a default.
group.initial.rebalance.delay.ms={beat}
group.consumer.heartbeat.interval.ms={beat}
group.consumer.min.heartbeat.interval.ms={beat}
group.consumer.session.timeout.ms={session}
group.consumer.min.session.timeout.ms={session}
"""


class Brokers:
    """The brokers, as a context: started on entry, stopped and deleted on exit."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="sluice-lab-"))
        self._ports = free_ports(BROKERS + 1)
        self._running: list[subprocess.Popen[bytes]] = []
        self.bootstrap = ",".join(f"{_LOCAL}:{port}" for port in self._ports[:BROKERS])

    def __enter__(self) -> Brokers:
        try:
            for node in range(1, BROKERS + 1):
                self._start(node)
            self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._running):  # the controller last
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    def make(self, partitions: Mapping[str, int]) -> None:
        """Make the topics with these numbers of partitions; old topics of these names are deleted."""
        with closing(self._admin()) as admin:
            if old := [topic for topic in admin.list_topics() if topic in partitions]:
                admin.delete_topics(old)
            topics = {name: {"num_partitions": n, "replication_factor": 1} for name, n in partitions.items()}
            admin.create_topics(topics, wait_for_metadata=True)

    def grow(self, topic: str, count: int) -> None:
        """Raise the topic's number of partitions to `count`."""
        with closing(self._admin()) as admin:
            admin.create_partitions({topic: count})

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(
            bootstrap_servers=self.bootstrap,
            client_id="sluice-lab",
            bootstrap_timeout_ms=_TRY_MS,
            # By default it waits up to half a minute before it looks again for brokers that start.
            reconnect_backoff_max_ms=_RETRY_MS,
        )

    def _start(self, node: int) -> None:
        place = self._home / str(node)
        place.mkdir()
        port, controller = self._ports[node - 1], self._ports[BROKERS]
        listeners = f"PLAINTEXT://{_LOCAL}:{port}"
        if node == 1:
            listeners += f",CONTROLLER://{_LOCAL}:{controller}"
        config = place / "server.properties"
        config.write_text(
            _PROPERTIES.format(
                roles="broker,controller" if node == 1 else "broker", node=node, host=_LOCAL, port=port,
                controller=controller, listeners=listeners, data=place / "data", beat=BEAT_MS,
                session=SESSION_MS,
            )
        )  # fmt: skip
        storage = ["format", "-t", _CLUSTER, "-c", str(config)]
        with (place / "log").open("wb") as log:
            formatted = subprocess.run(
                command("kafka.tools.StorageTool", _HEAP, *storage, quick=True),
                check=False, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
            if formatted.returncode:
                raise self._failed(node)
            self._running.append(
                subprocess.Popen(
                    command("kafka.Kafka", _HEAP, str(config)),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    preexec_fn=end_with_laboratory,  # noqa: PLW1509
                )
            )  # fmt: skip

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with closing(self._admin()) as admin:
                    if len(admin.describe_cluster()["brokers"]) == BROKERS:
                        return
            except KafkaError:
                pass
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._running):
                raise self._failed(1)
            time.sleep(0.5)

    def _failed(self, node: int) -> LaboratoryFailed:
        said = (self._home / str(node) / "log").read_text(errors="replace")[-2000:]
        return LaboratoryFailed(f"the brokers did not start: {said.strip()}")
