"""Front-ends on two other hosts: deployed by Airflow, one loses its power, and every line is proved.

The hosts are SSH servers on addresses of their own (`tests.collection.ssh_host`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sluice.collection import deploy, health, lifecycle
from sluice.collection.hosts import LOCAL
from sluice.collection.metrics import MetricsUnreachable
from sluice.runtime.settings import Settings
from sluice.storage import alerts
from sluice.storage.postgres import engine
from tests.collection.ssh_host import EmulatedHost
from tests.e2e.running import DAYS, Platform, access_lines, wait_until

pytestmark = pytest.mark.e2e

DAY = DAYS[2]
DEPLOYED_SECONDS = 300.0
ALERT_SECONDS = 120.0
LINES = 500


@pytest.fixture
def two(platform: Platform, tmp_path: Path) -> Iterator[dict[str, EmulatedHost]]:
    """Two enrolled hosts, each with a front-end that Airflow has deployed; taken out again afterwards."""
    home = platform.settings.home
    hosts = {f"far{n}": EmulatedHost(tmp_path / f"far{n}", f"127.0.1.{n}") for n in (1, 2)}
    for host in hosts.values():
        (host.home / "log").mkdir(parents=True)
        host.switch_on()
    try:
        enrol(platform, hosts)
        inventory = yaml.safe_load((platform.settings.root / "include" / "collection.yaml").read_text())
        inventory["front_ends"] += [
            {
                "host": name,
                "runs_on": name,
                "channel": "file",
                "files": [f"{host.home}/log/access.%Y-%m-%d.log"],
            }
            for name, host in hosts.items()
        ]
        (home / "collection.yaml").write_text(yaml.safe_dump(inventory))
        wait_until(lambda: set(hosts) <= running(platform), DEPLOYED_SECONDS, "far1 and far2 do not run")
        yield hosts
    finally:
        (home / "collection.yaml").unlink(missing_ok=True)
        try:
            gone = lambda: not {a.name for a in deploy.agents(platform.settings)} & set(hosts)  # noqa: E731
            wait_until(gone, DEPLOYED_SECONDS, "far1 and far2 were not taken out")
        finally:
            (home / "hosts.yaml").unlink(missing_ok=True)
            for host in hosts.values():
                host.switch_off()
        platform.drain()


def enrol(platform: Platform, hosts: dict[str, EmulatedHost]) -> None:
    """Follow docs/hosts.md: the key goes to the host, the fingerprint is confirmed."""
    entries: list[dict[str, object]] = [{"name": LOCAL, "address": "127.0.0.1"}]
    for name, host in hosts.items():
        ssh = {"user": "anybody", "port": host.port}
        entries.append({"name": name, "address": host.address, "ssh": ssh, "slots": 2})
    (platform.settings.home / "hosts.yaml").write_text(yaml.safe_dump(entries))
    for name, host in hosts.items():
        asked = platform.sluice("hosts", "enrol", name)
        assert asked.returncode == 0, asked.stderr
        (key,) = re.findall(r"^ssh-ed25519 .*$", asked.stdout, re.MULTILINE)
        (fingerprint,) = re.findall(r"^SHA256:\S+$", asked.stdout, re.MULTILINE)
        host.switch_off()
        host.authorize(key)
        host.switch_on()
        done = platform.sluice("hosts", "enrol", name, "--fingerprint", fingerprint)
        assert done.returncode == 0, done.stderr


def running(platform: Platform) -> set[str]:
    """The agents that answer, with all their components."""
    found = set()
    for agent in deploy.agents(platform.settings):
        try:
            if lifecycle.counters(platform.settings, agent).complete:
                found.add(agent.name)
        except MetricsUnreachable:
            continue
    return found


def open_alerts(settings: Settings) -> set[str]:
    return {alert.name for alert in alerts.open_alerts(engine(settings), health.SOURCE)}


def write(platform: Platform, host: EmulatedHost, seed: int) -> None:
    lines = access_lines(DAY, LINES, seed=seed)
    platform.written.setdefault(DAY, []).extend(lines)
    with (host.home / "log" / f"access.{DAY}.log").open("a") as out:
        out.writelines(line + "\n" for line in lines)


def test_front_ends_on_two_hosts_lose_and_double_nothing(
    platform: Platform, two: dict[str, EmulatedHost]
) -> None:
    for seed, host in enumerate(two.values()):
        write(platform, host, seed=700 + seed)
    platform.drain()

    write(platform, two["far2"], seed=710)
    two["far2"].switch_off()
    wait_until(
        lambda: "far2: unknown" in open_alerts(platform.settings), ALERT_SECONDS, "no alert: far2 is unknown"
    )
    assert not two["far2"].processes("java")
    write(platform, two["far1"], seed=711)
    two["far2"].switch_on()
    wait_until(lambda: "far2" in running(platform), DEPLOYED_SECONDS, "far2 was not started again")
    wait_until(
        lambda: "far2: unknown" not in open_alerts(platform.settings), ALERT_SECONDS, "the alert stays open"
    )
    assert len(two["far2"].processes("java")) == 1

    hops = platform.drain()
    accounts = {each.host: each for each in hops.files if each.host in two}
    assert {name: each.lines for name, each in accounts.items()} == {"far1": 2 * LINES, "far2": 2 * LINES}
    assert not any(each.missing_lines for each in accounts.values())
    platform.assert_online_is_exact(DAY)
