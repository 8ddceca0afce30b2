"""What the settings open to whoever reaches this machine, and what they keep from jobs on other hosts."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from sluice.collection.agent import LOCAL
from sluice.runtime.settings import LOOPBACK, Settings
from sluice_hosts.hosts import is_loopback, load


def warnings(settings: Settings) -> Iterator[str]:
    """What a user with other hosts has to know before they are used. Raises HostsError."""
    others = [host for host in load(settings).values() if host.name != LOCAL]
    if others and settings.bind_host != LOOPBACK:
        yield (
            f"bind_host = {settings.bind_host!r}: all daemons listen there, and hosts.yaml has other hosts. "
            "Whoever reaches that address is Kafka's super user without a password, whatever its listener "
            "for hosts asks; may read, change and delete what is in HDFS, HBase and the metastore; and may "
            "guess PostgreSQL's password. Remove bind_host; for jobs on other hosts set "
            "hadoop_host, with which HDFS and HBase alone listen there (docs/security.md)"
        )
    hidden = {_place(settings.hdfs.webhdfs), settings.hbase.host} & {LOOPBACK, "localhost"}
    for host in others:
        if hidden and "jobs" in host.roles and not is_loopback(host.address):
            yield (
                f"hadoop_host = {settings.hadoop_host!r}: {host.name} has the role jobs, and does not "
                f"reach HDFS or HBase at {min(hidden)}: give the address of this machine that {host.name} "
                "reaches, and start the platform again"
            )


def _place(url: str) -> str:
    return urlsplit(url).hostname or ""
