"""Kafka: one process that is both broker and controller (KRaft)."""

from __future__ import annotations

import base64
import subprocess
import uuid
from pathlib import Path

from sluice.runtime.jvm import java_command
from sluice.runtime.settings import Settings
from sluice.stack import health, templating
from sluice.stack.daemon import Command, Daemon
from sluice.stack.jars import require
from sluice.transmission import listener

TEMPLATE = "kafka.properties"


def configure(settings: Settings) -> None:
    conf = settings.home / "conf" / "kafka"
    templating.write(settings, TEMPLATE, _configuration(settings), **_values(settings))
    templating.write(settings, "log4j2.properties", conf / "log4j2.properties", level="INFO")


def outdated(settings: Settings) -> bool:
    """Whether the broker began with another configuration than it would begin with now."""
    path = _configuration(settings)
    return path.exists() and path.read_text() != templating.render(settings, TEMPLATE, **_values(settings))


def _values(settings: Settings) -> dict[str, object]:
    return {
        "data": settings.home / "data" / "kafka",
        "hosts": listener.read(settings.home),
        "hosts_port": settings.port(listener.PORT),
        "store_password": listener.STORE_PASSWORD,
    }


def _configuration(settings: Settings) -> Path:
    return settings.home / "conf" / "kafka" / "server.properties"


def format_log(settings: Settings) -> None:
    """Format the data directory at the first start: Kafka refuses one without a cluster id."""
    if (settings.home / "data" / "kafka" / "meta.properties").exists():
        return
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A", 1)
    config = str(_configuration(settings))
    options = ["format", "--ignore-formatted", "-t", cluster, "-c", config]
    argv = _java(settings, "kafka.tools.StorageTool", *options, quick=True)
    subprocess.run(argv, check=True)


def command(settings: Settings) -> Command:
    require("kafka")
    return Command(_java(settings, "kafka.Kafka", str(_configuration(settings))))


def _java(settings: Settings, main_class: str, *args: str, quick: bool = False) -> list[str]:
    logging = settings.home / "conf" / "kafka" / "log4j2.properties"
    return java_command(
        "kafka",
        main_class,
        args,
        heap="320m",
        options=[f"-Dlog4j2.configurationFile={logging}"],
        quick=quick,
    )


KAFKA = Daemon(
    name="kafka",
    service="kafka",
    ports=("kafka", "kafka_controller"),
    prepare=(configure, format_log),
    command=command,
    health=health.kafka,
    data=("data/kafka",),
)
