"""What is missing is found once nothing is on its way, and sent again from the first missing line on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sluice.archive import index
from sluice.collection import deploy
from sluice.quality import archived_bytes, resend
from sluice.quality.resend import PAUSE_SECONDS, Finding, Resend
from sluice.runtime.positions import position_at
from sluice.runtime.settings import Settings
from sluice.storage.tables import open_losses
from tests.quality.front_end import NAME, TOPIC, FrontEnd, no_hdfs
from tests.tasks.database import sqlite

HOUR = 3_600_000


class Rounds:
    """A resend, and the time that passes between its looks."""

    def __init__(self, web1: FrontEnd) -> None:
        self.web1, self.now = web1, 0.0
        losses = open_losses.open_losses(web1.database)
        self.resend = Resend(web1.settings, TOPIC, losses, clock=lambda: self.now)

    def find(self, seconds: float = PAUSE_SECONDS) -> Finding | None:
        self.now += seconds
        return self.resend.find()


@pytest.fixture
def ends() -> dict[int, int]:
    """Where Kafka's log ends now."""
    return {0: 10}


@pytest.fixture
def web1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: dict[int, int]) -> FrontEnd:
    """Ten lines were written and read; Kafka has a record for each."""
    made = FrontEnd(no_hdfs(Settings(instance="test", home=tmp_path, port_base=29_000)), sqlite())
    for module in (resend, archived_bytes, index):
        monkeypatch.setattr(module, "engine", lambda settings: made.database)
    monkeypatch.setattr(resend, "kafka_ends", lambda settings, topic: dict(ends))
    monkeypatch.setattr(deploy, "send_again", made.send_again)
    made.write(10)
    made.read()
    return made


def missing(finding: Finding | None) -> list[tuple[str, tuple[tuple[int, int], ...]]]:
    assert finding is not None
    return [(each.src_file, each.spans) for each in finding.lines]


def test_nothing_is_missing_if_both_layers_have_all(web1: FrontEnd) -> None:
    web1.lost(0, 0, 0)
    web1.counted((0, 90))
    web1.committed(10)
    web1.archived(0, 10, list(range(0, 90, 9)), arrival=1)
    rounds = Rounds(web1)
    assert rounds.find() is None
    assert rounds.find(PAUSE_SECONDS / 2) is None
    found = rounds.find()
    assert found == Finding()
    assert not found.lost


def test_lines_that_nobody_had_read_in_kafka_are_missing_in_the_ledger(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    """No era begins, so only the epoch says that a broker started again."""
    ends[0] = 8
    web1.lost(0, 0, 0)
    web1.counted((0, 45), (63, 90))
    web1.committed(8)
    web1.archived(0, 8, [0], arrival=1)
    rounds = Rounds(web1)
    assert rounds.find() is None
    assert missing(rounds.find()) == [(NAME, ((45, 63),))]


def test_nothing_is_called_missing_while_a_layer_is_behind(web1: FrontEnd) -> None:
    web1.lost(0, 0, 0)
    web1.committed(10)
    rounds = Rounds(web1)
    assert [rounds.find() for _ in range(3)] == [None] * 3
    web1.archived(0, 10, [0], arrival=1)
    web1.counted((0, 81))
    assert rounds.find() is None  # another look, for it differs from the one before
    assert missing(rounds.find()) == [(NAME, ((81, 90),))]


def test_what_was_read_after_the_first_look_is_not_called_missing(web1: FrontEnd) -> None:
    web1.lost(0, 0, 0)
    web1.counted((0, 90))
    web1.committed(10)
    web1.archived(0, 10, [0], arrival=1)
    rounds = Rounds(web1)
    rounds.find()
    web1.write(5)
    web1.read()
    assert missing(rounds.find()) == []


def test_lines_that_were_counted_and_not_archived_are_missing_in_the_archive(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.counted((0, 90))
    web1.committed(10)
    web1.archived(0, 6, list(range(0, 54, 9)), arrival=HOUR)
    rounds = Rounds(web1)
    rounds.find()
    assert missing(rounds.find()) == [(NAME, ((54, 90),))]


def test_they_are_sent_again_and_then_nothing_is_missing(web1: FrontEnd, ends: dict[int, int]) -> None:
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.counted((0, 72))
    web1.committed(10)
    web1.archived(0, 6, list(range(0, 54, 9)), arrival=HOUR)
    rounds, said = Rounds(web1), list[str]()
    rounds.find()
    found = rounds.find()
    assert missing(found) == [(NAME, ((54, 90),))]
    assert found is not None
    assert rounds.resend.send(found.lines, said.append) == {}
    assert web1.orders == [{NAME: 54}]
    assert said == [f"sent again, because it was missing: web1:{NAME}, bytes 54 to 89 (36 bytes)"]
    assert [rounds.find() for _ in range(3)] == [None] * 3  # the edge has not read them again
    web1.read()
    ends[0] = 10
    web1.counted((0, 90))
    web1.committed(position_at(1, 10))
    web1.archived(position_at(1, 6), position_at(1, 10), list(range(54, 90, 9)), arrival=2 * HOUR)
    assert rounds.find() is None
    assert missing(rounds.find()) == []


def test_what_was_counted_of_a_file_that_is_gone_is_lost_for_good(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.counted((0, 45), (54, 90))
    web1.committed(10)
    web1.archived(0, 6, list(range(0, 45, 9)), arrival=HOUR)
    web1.path.unlink()
    rounds = Rounds(web1)
    rounds.find()
    found = rounds.find()
    assert found is not None
    assert (found.lines, found.gone) == ((), (f"web1:{NAME}, bytes 45 to 89",))
    assert found.lost


def test_an_edge_that_cannot_send_again_does_not_keep_others_from_it(
    web1: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    web2 = FrontEnd(web1.settings, web1.database, host="web2", name="log2/access.2026-01-05.log")
    web2.write(10)
    web2.read()
    web1.lost(0, 0, 0)
    web1.committed(10)
    web1.archived(0, 10, [0], arrival=1)

    def refused(settings: Settings, to: Mapping[str, Mapping[str, int]], log: object) -> dict[str, str]:
        web2.send_again(settings, to, log)
        return {"web1": "its disk is full"}

    monkeypatch.setattr(deploy, "send_again", refused)
    rounds, said = Rounds(web1), list[str]()
    rounds.find()
    found = rounds.find()
    assert found is not None
    assert rounds.resend.send(found.lines, said.append) == {"web1": "its disk is full"}
    assert web2.orders == [{web2.name: 0}]
    assert said == [f"sent again, because it was missing: web2:{web2.name}, bytes 0 to 89 (90 bytes)"]


@pytest.mark.parametrize(("counted", "among"), [((0, 5), False), ((8, 9), True)])
def test_records_of_other_producers_among_what_the_archive_lacks(
    web1: FrontEnd, ends: dict[int, int], counted: tuple[int, int], among: bool
) -> None:
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.counted((0, 90))
    FrontEnd(web1.settings, web1.database, host="kafka").counted(counted, name=f"{TOPIC}/0")
    (web1.settings.home / "flume" / "kafka" / "agent.json").unlink()
    web1.committed(10)
    web1.archived(0, 6, [0], arrival=HOUR)
    rounds = Rounds(web1)
    rounds.find()
    found = rounds.find()
    assert found is not None
    assert found.others is among
    assert found.gone == ()
