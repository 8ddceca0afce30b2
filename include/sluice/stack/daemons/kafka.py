"""Kafka: one process that is both broker and controller (KRaft)."""

from __future__ import annotations

import base64
import subprocess
import uuid
from pathlib import Path

from sluice.runtime.files import write_whole
from sluice.runtime.jvm import java_command
from sluice.runtime.settings import Settings
from sluice.stack import health, templating
from sluice.stack.daemon import Command, Daemon
from sluice.stack.daemons import kafka_checkpoints
from sluice.stack.daemons.kafka_volume import mark_volume
from sluice.stack.jars import require
from sluice.transmission import listener

_BEGAN_WITH = "began_with"  # the listener for hosts with which it was configured


def configure(settings: Settings) -> None:
    conf, hosts = _conf(settings), listener.read(settings.home)
    templating.write(
        settings,
        "kafka.properties",
        conf / "server.properties",
        data=settings.home / "data" / "kafka",
        hosts=hosts,
        hosts_port=settings.port(listener.PORT),
        store_password=listener.STORE_PASSWORD,
    )
    templating.write(settings, "log4j2.properties", conf / "log4j2.properties", level="INFO")
    write_whole(conf / _BEGAN_WITH, repr(hosts))


def outdated(settings: Settings) -> bool:
    """Whether the broker began with another listener for hosts than it would begin with now."""
    path = _conf(settings) / _BEGAN_WITH
    return path.exists() and path.read_text() != repr(listener.read(settings.home))


def _conf(settings: Settings) -> Path:
    return settings.home / "conf" / "kafka"


def format_log(settings: Settings) -> None:
    """Format the data directory at the first start: Kafka refuses one without a cluster id."""
    if (settings.home / "data" / "kafka" / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
    config = str(_conf(settings) / "server.properties")
    options = ["format", "--ignore-formatted", "-t", cluster, "-c", config]
    argv = _java(settings, "kafka.tools.StorageTool", *options, quick=True)
    subprocess.run(argv, check=True)


def command(settings: Settings) -> Command:
    require("kafka")
    return Command(_java(settings, "kafka.Kafka", str(_conf(settings) / "server.properties")))


def _java(settings: Settings, main_class: str, *args: str, quick: bool = False) -> list[str]:
    logging = _conf(settings) / "log4j2.properties"
    return java_command(
        "kafka",
        main_class,
        args,
        heap=settings.heaps.kafka,
        options=[f"-Dlog4j2.configurationFile={logging}"],
        quick=quick,
    )


KAFKA = Daemon(
    name="kafka",
    service="kafka",
    ports=("kafka", "kafka_controller"),
    # The mark comes with the epochs, so those are whole first.
    prepare=(configure, format_log, kafka_checkpoints.mend, mark_volume),
    command=command,
    health=health.kafka,
    data=("data/kafka",),
)
