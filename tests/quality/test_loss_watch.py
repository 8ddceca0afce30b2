"""A loss is settled when nothing is missing; alerts say what is sent again and what is lost for good."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.archive import index
from sluice.collection import deploy
from sluice.collection.agent import folder
from sluice.quality import archived_bytes, loss_watch, resend
from sluice.quality.loss_watch import AWAY_SECONDS, NOBODY_SENDS, TOLD_SECONDS, LossWatch, for_good
from sluice.runtime.positions import position_at
from sluice.runtime.settings import Settings
from sluice.storage.tables import alerts, open_losses, schema
from tests.quality.front_end import NAME, TOPIC, FrontEnd, no_hdfs
from tests.tasks.database import sqlite

DAY = "2026-01-05"
ERA = f"lost {TOPIC}/0: offset 6, era 1"
NOW = 4_000_000_000_000  # ms, after every loss


class Watched:
    """A watch, and the time that passes between its looks."""

    def __init__(self, web1: FrontEnd) -> None:
        self.now = 0.0
        self.watch = LossWatch(web1.settings, clock=lambda: self.now)

    def look(self, times: int = 1, seconds: float = 5.0) -> list[str]:
        said = []
        for _ in range(times):
            self.now += seconds
            said += self.watch.look()
        return said


@pytest.fixture
def ends() -> dict[int, int]:
    return {0: 6}


@pytest.fixture
def web1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: dict[int, int]) -> FrontEnd:
    """Ten lines were read and counted; Kafka lost four before they were archived, which an alert says."""
    made = FrontEnd(no_hdfs(Settings(instance="test", home=tmp_path, port_base=29_000)), sqlite())
    for module in (resend, archived_bytes, index, loss_watch):
        monkeypatch.setattr(module, "engine", lambda settings: made.database)
    monkeypatch.setattr(resend, "kafka_ends", lambda settings, topic: dict(ends))
    monkeypatch.setattr(deploy, "send_again", made.send_again)
    monkeypatch.setattr(loss_watch, "TOLD_SECONDS", 0.0)
    made.write(10)
    made.read()
    made.lost(1, 6, 10)
    made.counted((0, 90))
    made.committed(10)
    made.archived(0, 6, list(range(0, 54, 9)), arrival=1)
    alerts.sync(made.database, "archive", {ERA: "Kafka lost the records"})
    return made


def messages(web1: FrontEnd) -> dict[str, str]:
    return {each.name: each.message for each in alerts.open_alerts(web1.database)}


def arrive(web1: FrontEnd, ends: dict[int, int], lines: int = 4) -> None:
    """What was sent again is counted as doubles, and archived."""
    web1.read()
    ends[0] = 6 + lines
    web1.committed(position_at(1, 6 + lines))
    starts = [54 + 9 * n for n in range(lines)]
    web1.archived(position_at(1, 6), position_at(1, 6 + lines), starts, arrival=NOW, days=DAY)


def test_a_loss_is_made_good_and_its_alert_is_cleared(web1: FrontEnd, ends: dict[int, int]) -> None:
    row = {"topic": TOPIC, "day": date.fromisoformat(DAY), "partition": 0, "lines": 10, "last_offset": 9}
    with web1.database.begin() as connection:
        connection.execute(sa.insert(schema.event_days).values(**row))
    watched = Watched(web1)
    (said,) = watched.look()
    assert said.startswith(f"sent again, because it was missing: web1:{NAME}, bytes 54 to 89")
    assert web1.orders == [{NAME: 54}]
    what = f"the front-ends send again what is missing: web1:{NAME}, bytes 54 to 89"
    assert messages(web1) == {ERA: f"Kafka lost the records; since then: {what}"}
    arrive(web1, ends)
    assert watched.look() == []
    assert open_losses.open_losses(web1.database) == []
    assert messages(web1) == {}
    assert len(web1.orders) == 1
    with web1.database.connect() as connection:  # a night that was computed without them is computed again
        assert connection.scalar(sa.select(schema.event_days.c.last_offset)) == position_at(1, 10) - 1


def test_whoever_looks_after_a_watch_that_died_goes_on(web1: FrontEnd, ends: dict[int, int]) -> None:
    Watched(web1).look()
    arrive(web1, ends)
    other = Watched(web1)
    other.look()
    assert open_losses.open_losses(web1.database) == []
    assert len(web1.orders) == 1


def test_what_is_still_missing_is_sent_again_once_and_then_named(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    watched = Watched(web1)
    watched.look()
    arrive(web1, ends, lines=3)
    (said,) = watched.look()
    assert said == (
        f"Kafka lost lines of {TOPIC} for good: they were sent again and are still missing: "
        f"web1:{NAME}, bytes 81 to 89"
    )
    assert messages(web1) == {for_good(TOPIC): said}
    assert len(web1.orders) == 1
    assert open_losses.open_losses(web1.database) == []


def test_what_a_file_had_that_is_gone_is_named_until_a_person_asks(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    web1.path.unlink()
    watched = Watched(web1)
    (said,) = watched.look()
    assert said == f"Kafka lost lines of {TOPIC} for good: their files are gone: web1:{NAME}, bytes 54 to 89"
    assert messages(web1) == {for_good(TOPIC): said}
    web1.write(10)  # somebody has it restored
    web1.read()
    watched.look()
    assert web1.orders == []
    open_losses.ask(web1.database, TOPIC)
    watched.look()
    assert web1.orders == [{NAME: 54}]
    arrive(web1, ends)
    watched.look()
    assert messages(web1) == {}


def test_a_topic_that_no_front_end_writes_into_cannot_be_asked(
    web1: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_watch, "TOLD_SECONDS", TOLD_SECONDS)
    (folder(web1.settings, "web1") / "agent.json").unlink()
    watched = Watched(web1)
    watched.look(2, TOLD_SECONDS / 2)
    assert len(open_losses.open_losses(web1.database)) == 1  # its alert may not be raised yet
    watched.look(1, TOLD_SECONDS)
    assert open_losses.open_losses(web1.database) == []
    assert messages(web1) == {ERA: f"Kafka lost the records; since then: {NOBODY_SENDS}"}


def test_a_person_clears_the_alerts_of_a_topic_that_no_front_end_writes_into(web1: FrontEnd) -> None:
    (folder(web1.settings, "web1") / "agent.json").unlink()
    Watched(web1).look()
    assert messages(web1).keys() == {ERA}
    open_losses.ask(web1.database, TOPIC)
    assert Watched(web1).look() == [f"{TOPIC}: {NOBODY_SENDS}. The alerts about it are cleared"]
    assert open_losses.open_losses(web1.database) == []
    assert messages(web1) == {}


def test_edges_that_cannot_be_asked_are_asked_again_later(
    web1: FrontEnd, ends: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> dict[str, str]:
        return {"web1": "its disk is full"}

    with monkeypatch.context() as patch:
        patch.setattr(deploy, "send_again", refused)
        watched = Watched(web1)
        assert watched.look()[-1] == f"{TOPIC}: what Kafka lost is still to be sent again by web1"
        assert watched.watch.waits_for_edges(TOPIC)
        assert len(open_losses.open_losses(web1.database)) == 1
    watched.look()
    assert web1.orders == []
    watched.look(1, AWAY_SECONDS)
    assert web1.orders == [{NAME: 54}]


def test_an_edge_does_not_send_again_for_ever_while_another_one_is_away(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    """The last line of web1 does not come, and the host of web2 is not known for a while."""
    web2 = FrontEnd(web1.settings, web1.database, host="web2", name="log2/access.2026-01-05.log")
    path = folder(web1.settings, "web2") / "agent.json"
    here = path.read_text()
    path.write_text(here.replace('"local"', '"h1"'))
    watched = Watched(web1)
    watched.look()
    arrive(web1, ends, lines=3)
    said = watched.look(4, AWAY_SECONDS)
    assert said == [f"{TOPIC}: what Kafka lost is still to be sent again by web2"] * 4
    assert web1.orders == [{NAME: 54}]
    path.write_text(here)
    web2.write(1)
    (named,) = watched.look(1, AWAY_SECONDS)
    assert named.endswith(f"still missing: web1:{NAME}, bytes 81 to 89")
    assert web1.orders == [{NAME: 54}]


def test_a_loss_meanwhile_is_found_out_from_the_beginning(web1: FrontEnd, ends: dict[int, int]) -> None:
    watched = Watched(web1)
    watched.look()
    arrive(web1, ends, lines=3)  # Kafka lost the fourth, too
    with web1.database.begin() as connection:
        connection.execute(sa.update(schema.log_eras).values(epoch=2))
    watched.look()
    assert web1.orders == [{NAME: 54}, {NAME: 81}]


def test_without_a_loss_a_look_does_nothing(web1: FrontEnd) -> None:
    open_losses.settle(web1.database, open_losses.open_losses(web1.database))
    assert Watched(web1).look() == []
    assert web1.orders == []
