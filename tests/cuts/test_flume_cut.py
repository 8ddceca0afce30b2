"""An edge whose file channel and position lost their ends starts, and hands on what is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sluice.collection import lifecycle, local_machine
from sluice.collection.agent import Agent, folder
from sluice.collection.channel_log import FILL
from sluice.collection.inventory import load
from sluice.collection.local_machine import LocalMachine
from sluice.collection.render import render
from sluice.runtime.settings import Settings, make_secret
from sluice.storage.tables import open_losses
from sluice_lab.ports import free_ports, port_base
from sluice_lab.waiting import until
from tests.cuts.damage import damage, dice
from tests.tasks.database import sqlite

pytestmark = [pytest.mark.stack, pytest.mark.long]

INVENTORY = """
topic: logs
front_ends:
  - host: web2
    files: ["{{home}}/frontends/web2/access.%Y-%m-%d.log"]
    channel: file
    collectors: [collector1]
    metrics_port: {}
collectors:
  - name: collector1
    metrics_port: {}
"""
LINE, LINES = b"%07d " + b"y" * 90 + b"\n", 2000


class Edge:
    """An edge alone: its collector does not run, so all stays in its channel."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(instance="cut", home=home, port_base=port_base(), network="host")
        make_secret(home, "identity")
        (home / "collection.yaml").write_text(INVENTORY.format(*free_ports(2)))
        made = render(load(self.settings), self.settings)["web2"]
        self.agent: Agent = made.agent
        self.machine = LocalMachine(self.settings)
        self.where = folder(self.settings, "web2")
        self.where.mkdir(parents=True)
        for name, text in made.files.items():
            (self.where / name).write_text(text)
        self.machine.lay_out(self.agent)
        self.said: list[str] = []
        self._written = 0

    def start(self) -> None:
        lifecycle.start(self.settings, self.agent, self.said.append)
        lifecycle.await_ready(self.settings, [self.agent])

    def write(self, batches: int) -> None:
        """So many transactions of the channel at least."""
        log = self.settings.home / "frontends" / "web2" / "access.2026-01-05.log"
        for _ in range(batches):
            with log.open("ab") as out:
                out.writelines(LINE % (self._written + number) for number in range(LINES))
            self._written += LINES
            until(lambda: self.machine.all_read(self.agent), what="all is read")

    def blocks(self) -> int:
        """How many the channel holds."""
        channel = lifecycle.counters(self.settings, self.agent).channel
        assert not channel.get("Unhealthy"), "the channel does not run"
        return int(channel["ChannelSize"])

    def kill(self) -> None:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.machine.status(self.agent).pid)
            process.kill()
            process.wait()

    def log(self) -> Path:
        found = [each for each in (self.where / "channel" / "data").glob("log-*") if each.suffix == ""]
        return max(found, key=lambda each: int(each.name.removeprefix("log-")))


@pytest.fixture
def edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    database = sqlite()
    monkeypatch.setattr(local_machine, "engine", lambda settings: database)
    asked: list[str] = []
    monkeypatch.setattr(open_losses, "ask", lambda engine, topic: asked.append(topic))
    made = Edge(tmp_path)
    made.asked = asked  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        if made.machine.status(made.agent).pid:
            made.kill()


def test_it_starts_and_what_it_lost_is_asked_for(edge: Edge) -> None:
    drawn = dice()
    edge.start()
    for number, zeros in enumerate((False, True)):
        edge.write(4)
        before = edge.blocks()
        edge.kill()
        damage(edge.log(), drawn, zeros=zeros, padding=FILL)
        edge.start()
        assert before - 8 <= edge.blocks() < before, edge.said
        assert f"web2: its channel's {edge.log().name[:4]}" in "".join(edge.said)
        assert edge.asked == ["logs"] * (number + 1)  # type: ignore[attr-defined]
        edge.write(1)
    position = edge.where / "position.json"
    for left in (b"", position.read_bytes()[: drawn.randrange(1, 40)], bytes(60)):
        held = edge.blocks()
        edge.kill()
        position.write_bytes(left)
        edge.start()  # the file is read again; its lines have identities
        until(lambda: edge.machine.all_read(edge.agent), what="all is read again")
        assert edge.blocks() > held
