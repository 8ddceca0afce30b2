"""Agents on five other hosts: deployed by Airflow, two lose their power, one freezes, every line is proved.

Edges run on two of the hosts, and collectors move among the others while lines come: one by the DAG
`placement`, because its host is off and the next one frozen, and one by hand, also while it, or its mover, is
killed, and in the end because its host is slow. The hosts are SSH servers on addresses of their own
(`sluice_hosts.emulated`). `pytest -s` shows how long the frozen host's collector was away.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.collection import deploy, health, lifecycle
from sluice.collection.agent import LOCAL
from sluice.collection.errors import AgentError
from sluice.collection.hosting import machine_of
from sluice.collection.metrics import MetricsUnreachable
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice_hosts import hosts, placed
from sluice_hosts.agents import forgetting, moving, remnants
from sluice_hosts.agents.ssh_machine import SshMachine
from sluice_hosts.emulated import fleet
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.trust import enrolment
from sluice_hosts.units import moves
from sluice_lab.access_lines import access_lines
from sluice_lab.waiting import until
from tests.e2e.running import DAYS, PIECE, TIMEOUT_SECONDS, Platform, traffic
from tests.hosts.agents import steps
from tests.hosts.agents.steps import Kill, Side, struck

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(TIMEOUT_SECONDS)]

DAY = DAYS[2]
DEPLOYED_SECONDS = 300.0
ALERT_SECONDS = 120.0
PLACED_SECONDS = 240.0
LINES = 500
EDGES, GATHERERS = ("far1", "far2"), ("far3", "far4", "far5")
COLLECTORS = ("gather1", "gather2")
#: One where the new process takes over, one while the record is written, one while the old one drains.
KILLS = "started-new,torn-mover,drained-mover-old"
ROLES: fleet.Roles = {**dict.fromkeys(EDGES, ("edge",)), **dict.fromkeys(GATHERERS, ("collector",))}


@pytest.fixture
def five(platform: Platform, tmp_path: Path) -> Iterator[dict[str, EmulatedHost]]:
    """Five enrolled hosts with the agents that Airflow has deployed; taken out again afterwards."""
    home = platform.settings.home
    made = fleet.build(tmp_path, ROLES)
    for host in made.values():
        host.install_java()
    wanted = {*EDGES, *COLLECTORS}
    try:
        enrol(platform, made)
        placed.write(platform.settings, place("far3", "far4"))
        (home / "collection.yaml").write_text(yaml.safe_dump(inventory(platform.settings, made)))
        until(lambda: wanted <= running(platform), DEPLOYED_SECONDS, "all that was deployed runs")
        yield made
    finally:
        (home / "collection.yaml").unlink(missing_ok=True)
        try:
            gone = lambda: not {a.name for a in deploy.agents(platform.settings)} & wanted  # noqa: E731
            until(gone, DEPLOYED_SECONDS, "the hosts' agents are taken out")
            for name in GATHERERS[:-1]:
                forgetting.dismiss(platform.settings, name)
            forgotten = platform.sluice("hosts", "forget", GATHERERS[-1])
            assert forgotten.returncode == 0, forgotten.stderr
        finally:
            placed.path_of(platform.settings).unlink(missing_ok=True)
            (home / hosts.FILE).unlink(missing_ok=True)
            for host in made.values():
                host.switch_off()
        platform.drain()


def place(*hosts: str) -> dict[str, str]:
    return {placed.unit(name): host for name, host in zip(COLLECTORS, hosts, strict=True)}


def inventory(settings: Settings, machines: dict[str, EmulatedHost]) -> dict[str, object]:
    """What Sluice comes with, and edges on two of the hosts with collectors on others."""
    made: dict[str, Any] = yaml.safe_load((settings.root / "include" / "collection.yaml").read_text())
    made["collectors"] += [{"name": name, "runs_on": "placed"} for name in COLLECTORS]
    made["front_ends"] += [
        {
            "host": name,
            "runs_on": name,
            "channel": "file",
            "files": [f"{machines[name].home}/log/access.%Y-%m-%d.log"],
            "collectors": list(order),
        }
        for name, order in zip(EDGES, (COLLECTORS, COLLECTORS[::-1]), strict=True)
    ]
    return made


def enrol(platform: Platform, made: dict[str, EmulatedHost]) -> None:
    """Two as docs/hosts.md says: an edge's and the first collector's. The others without a command."""
    settings = platform.settings
    fleet.switch_on(settings, made, ROLES)
    for name in (EDGES[0], GATHERERS[0]):
        asked = platform.sluice("hosts", "enrol", name)
        assert asked.returncode == 0, asked.stderr
        assert enrolment.public_key(settings, hosts.load(settings)[name]) in asked.stdout
        (fingerprint,) = re.findall(r"^SHA256:\S+$", asked.stdout, re.MULTILINE)
        assert fingerprint == made[name].fingerprint()
        done = platform.sluice("hosts", "enrol", name, "--fingerprint", fingerprint)
        assert done.returncode == 0, done.stderr
    fleet.enrol(settings, {name: made[name] for name in (EDGES[1], *GATHERERS[1:])})


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


def write(platform: Platform, host: EmulatedHost, seed: int, lines: int = LINES) -> None:
    made = access_lines(DAY, lines, seed=seed)
    platform.note(DAY, made)
    with (host.home / "log" / f"access.{DAY}.log").open("a") as out:
        out.writelines(line + "\n" for line in made)


def write_piece(platform: Platform, host: EmulatedHost, seed: int, number: int) -> None:
    write(platform, host, seed + number, PIECE)


def pid(settings: Settings, name: str) -> int:
    agent = deploy.agent(settings, name)
    return machine_of(settings, agent).status(agent).pid


def is_on(platform: Platform, collector: str, host: str) -> bool:
    return deploy.agent(platform.settings, collector).runs_on == host and collector in running(platform)


def move_there_and_back(platform: Platform, host: EmulatedHost, patch: pytest.MonkeyPatch) -> int:
    """Move gather1 while lines come, and kill whoever takes part; returns how many lines came."""
    with traffic(partial(write_piece, platform, host, 50_000)) as written:
        for kill in steps.named(KILLS):
            move_under_fire(platform.settings, patch, kill)
        moving.move(platform.settings, "gather1", "far3")
    return written[0]


def move_under_fire(settings: Settings, patch: pytest.MonkeyPatch, kill: Kill) -> None:
    """Take gather1 to the other one of two hosts. The move is repeated, as the DAG `placement` does it."""
    agent = deploy.agent(settings, "gather1")
    to = "far3" if agent.runs_on == "far5" else "far5"
    sides: dict[Side, str] = {"old": agent.runs_on, "new": to}

    def process(side: Side) -> int:
        now = SshMachine(settings, sides[side]).status(agent)
        return now.pid if now.state == "alive" else 0

    with struck(patch, kill, process):
        moving.move(settings, "gather1", to)

    def arrives() -> bool:
        with suppress(AgentError, MetricsUnreachable):
            moving.move(settings, "gather1", to)
        return deploy.agent(settings, "gather1").runs_on == to and not remnants.known(settings)

    until(arrives, PLACED_SECONDS, f"gather1 runs on {to} after {kill}")


def freeze(platform: Platform, five: dict[str, EmulatedHost]) -> int:
    """Have gather2's host stand still, and go on; returns how many lines came to far2's edge meanwhile.

    This edge prefers gather2, so it has sent lines to a collector that neither takes nor refuses them.
    """
    settings, frozen = platform.settings, deploy.agent(platform.settings, "gather2").runs_on

    def elsewhere() -> str:
        there = deploy.agent(settings, "gather2").runs_on
        return there if there != frozen and is_on(platform, "gather2", there) else ""

    with traffic(partial(write_piece, platform, five["far2"], 70_000)) as written:
        until(lambda: written[0] >= LINES, ALERT_SECONDS, "lines come")
        five[frozen].freeze()
        begun, before = time.monotonic(), written[0]
        there = until(elsewhere, PLACED_SECONDS, f"the placement takes gather2 from {frozen}")
        print(f"{time.monotonic() - begun:.1f} s after {frozen} stood still gather2 ran on {there}")
        until(lambda: written[0] > before + LINES, ALERT_SECONDS, "lines come")
        assert [each.runs_on for each in remnants.known(settings)] == [frozen]
        assert len(five[frozen].processes("java")) == 1
        five[frozen].thaw()
        until(lambda: not remnants.known(settings), DEPLOYED_SECONDS, f"{frozen} is drained")
    assert [len(five[name].processes("java")) for name in GATHERERS] == [int(n == there) for n in GATHERERS]
    return written[0]


def even_out(platform: Platform, host: EmulatedHost, patch: pytest.MonkeyPatch) -> int:
    """Let one move pay while lines come; returns how many came.

    gather1 leaves local, which the tests' settings call slow, once its load is known. gather2 stays.
    """
    other = placed.unit("gather2")
    there = placed.read(platform.settings)[other]

    def moved() -> bool:
        done = platform.sluice("placement", "apply")
        assert done.returncode == 0 or "another process moves units" in done.stderr, done.stderr
        return deploy.agent(platform.settings, "gather1").runs_on != LOCAL

    with patch.context() as budget, traffic(partial(write_piece, platform, host, 30_000)) as written:
        budget.setenv("SLUICE_PLACEMENT__MOVES_AN_HOUR", "1")
        until(moved, PLACED_SECONDS, "the placement evens out", poll=5.0)
        until(lambda: "gather1" in running(platform), PLACED_SECONDS, "gather1 takes lines again")
    (move,) = (each for each in moves.history(engine(platform.settings)).values() if each.counts)
    assert (move.unit, move.source) == (placed.unit("gather1"), LOCAL)
    assert placed.read(platform.settings)[other] == there
    return written[0]


def test_hosts_die_and_freeze_and_collectors_move_and_no_line_is_lost_or_doubled(
    platform: Platform, five: dict[str, EmulatedHost], placing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = platform.settings
    for seed, name in enumerate(EDGES):
        write(platform, five[name], seed=700 + seed)
    platform.drain()

    edge, silent, left = pid(settings, "far1"), "far2: unknown", "gather2: left on far4"
    under_fire = move_there_and_back(platform, five["far1"], monkeypatch)

    # An edge and a collector lose their power while lines come. Collectors move: the one whose host is silent
    # by itself, and one that runs by hand.
    write(platform, five["far2"], seed=710)
    with traffic(partial(write_piece, platform, five["far1"], 10_000)) as written:
        for name in ("far2", "far4"):
            five[name].switch_off()
            assert not five[name].processes("java")
        until(lambda: silent in open_alerts(settings), ALERT_SECONDS, "an alert: far2 is unknown")
        until(
            lambda: is_on(platform, "gather2", "far5"), PLACED_SECONDS, "the placement starts gather2 on far5"
        )
        moving.move(settings, "gather1", LOCAL)
        before = written[0]
        until(lambda: written[0] > before + LINES, ALERT_SECONDS, "lines come")
    assert written[0] >= LINES
    assert pid(settings, "far1") == edge, "an edge was restarted by a move"
    assert [len(five[name].processes("java")) for name in GATHERERS] == [0, 0, 1]
    assert placed.read(settings) == place(LOCAL, "far5")
    until(lambda: left in open_alerts(settings), ALERT_SECONDS, "an alert: something is left on far4")

    for name in ("far2", "far4"):
        five[name].switch_on()
    until(lambda: "far2" in running(platform), DEPLOYED_SECONDS, "far2 is started again")
    until(lambda: not remnants.known(settings), DEPLOYED_SECONDS, "far4 is drained")
    cleared = lambda: not open_alerts(settings) & {silent, left}  # noqa: E731
    until(cleared, ALERT_SECONDS, "the alerts of silent hosts are cleared")
    assert not five["far4"].processes("java")
    assert len(five["far2"].processes("java")) == 1

    still = freeze(platform, five)
    meanwhile = even_out(platform, five["far1"], monkeypatch)

    hops = platform.drain()
    accounts = {each.host: each for each in hops.files if each.host in EDGES}
    lines = {"far1": LINES + under_fire + written[0] + meanwhile, "far2": 2 * LINES + still}
    assert {name: each.lines for name, each in accounts.items()} == lines
    assert not any(each.missing_lines for each in accounts.values())
    platform.assert_online_is_exact(DAY)
