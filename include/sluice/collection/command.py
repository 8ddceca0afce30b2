"""The command line of an agent, on whichever host."""

from __future__ import annotations

from pathlib import PurePath

from sluice.collection.agent import Agent
from sluice.runtime.jvm import LIB, java_command

HEAP = "512m"
_LOGIN = "java.security.auth.login.config"
#: What Avro may make of the bytes that come from an edge: its own handshake, and Flume's events.
_AVRO = (
    *(
        f"org.apache.avro.ipc.{name}"
        for name in ("HandshakeRequest", "HandshakeResponse", "HandshakeMatch", "MD5")
    ),
    *(f"org.apache.flume.source.avro.{name}" for name in ("AvroFlumeEvent", "Status")),
)


def agent_command(
    agent: Agent,
    *,
    configuration: PurePath,
    state: PurePath,
    home: PurePath,
    address: str,
    lib: PurePath | None = None,
    login: PurePath | None = None,
) -> list[str]:
    """The program and its arguments.

    configuration, state: the folders of its properties, and of its position and channel. home: names of log
    files below it are relative. address: where its metrics are. lib: where the jars lie, by default this
    machine's. login: the file with which a collector logs in to Kafka, if it does.
    """
    return java_command(
        "flume",
        "org.apache.flume.node.Application",
        ["--name", "agent", "--conf-file", str(configuration / "agent.properties"), "--no-reload-conf"],
        heap=HEAP,
        options=[
            "-Dflume.monitoring.type=sluice.flume.LocalMetrics",
            f"-Dflume.monitoring.host={address}",
            f"-Dflume.monitoring.port={agent.metrics_port}",
            f"-Dorg.apache.avro.SERIALIZABLE_CLASSES={','.join(_AVRO)}",
            f"-Dsluice.maxLine={agent.max_line}",
            f"-Dsluice.folder={state}",
            f"-Dsluice.home={home}",
            f"-Dlog4j2.configurationFile={configuration / 'log4j2.properties'}",
            *([f"-D{_LOGIN}={login}"] if login else []),
        ],
        classpath=[(lib or LIB / "flume") / "classes"],
        lib=lib,
    )
