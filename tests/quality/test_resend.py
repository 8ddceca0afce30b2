"""What is missing is found once nothing is on its way, and sent again from the first missing line on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.archive import index
from sluice.collection import deploy, lifecycle
from sluice.collection.agent import Agent, folder
from sluice.collection.channels import TAKEN
from sluice.collection.metrics import AgentCounters
from sluice.quality import archived_bytes, resend
from sluice.quality.archived_bytes import ArchivedBytes
from sluice.quality.resend import Finding, Resend
from sluice.runtime import days
from sluice.runtime.positions import position_at
from sluice.runtime.settings import Settings
from sluice.storage.tables import open_losses, schema
from sluice.transmission.line_identity import REPLAYED_HOST
from tests.quality.front_end import NAME, TOPIC, FrontEnd, no_hdfs
from tests.tasks.database import sqlite

HOUR = 3_600_000


def resent(web1: FrontEnd) -> Resend:
    return Resend(web1.settings, TOPIC, open_losses.open_losses(web1.database))


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
    found = resent(web1).find()
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
    assert missing(resent(web1).find()) == [(NAME, ((45, 63),))]


def test_nothing_is_called_missing_while_a_layer_is_behind(web1: FrontEnd) -> None:
    web1.lost(0, 0, 0)
    web1.committed(10)
    resend = resent(web1)
    assert [resend.find() for _ in range(3)] == [None] * 3
    web1.archived(0, 10, [0], arrival=1)
    web1.counted((0, 81))
    assert missing(resend.find()) == [(NAME, ((81, 90),))]


def test_what_was_read_after_the_first_look_is_not_called_missing(web1: FrontEnd) -> None:
    web1.lost(0, 0, 0)
    web1.counted((0, 90))
    resend = resent(web1)
    assert resend.find() is None
    web1.committed(10)
    web1.archived(0, 10, [0], arrival=1)
    web1.write(5)
    web1.read()
    assert missing(resend.find()) == []


def test_what_channels_hold_is_waited_for(
    web1: FrontEnd, ends: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """First for the edges', then for the collectors', and only then it is asked where Kafka ends."""
    held = {"web1": 2.0, "collector1": 0.0}
    taken = dict.fromkeys(held, 5.0)

    def counters(settings: Settings, agent: Agent) -> AgentCounters:
        own = {"ChannelSize": held[agent.name], TAKEN: taken[agent.name]}
        own["EventPutSuccessCount"] = taken[agent.name] + held[agent.name]
        return AgentCounters({"CHANNEL.buffer": own})

    def hand_on(agent: str, to: str = "") -> None:
        taken[agent] += held[agent]
        held[agent], held[to] = 0.0, held[agent]

    monkeypatch.setattr(lifecycle, "counters", counters)
    collector = Agent("collector1", "collector", TOPIC, "file", 1_000, 1, port=2)
    where = folder(web1.settings, "collector1")
    where.mkdir()
    (where / "agent.json").write_text(collector.to_json())
    web1.lost(0, 0, 0)
    ends[0] = 8
    web1.counted((0, 72))
    web1.committed(8)
    web1.archived(0, 8, [0], arrival=1)
    resend = resent(web1)
    assert resend.find() is None
    hand_on("web1", "collector1")
    assert resend.find() is None
    taken["collector1"] = 0  # it was started again: it begins anew
    assert resend.find() is None
    assert resend.find() is None
    hand_on("collector1")
    ends[0] = 10
    assert resend.find() is None
    web1.counted((0, 90))
    web1.committed(10)
    web1.archived(8, 10, [72, 81], arrival=2)
    assert resend.find() == Finding()


def test_lines_that_were_counted_and_not_archived_are_missing_in_the_archive(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.counted((0, 90))
    web1.committed(10)
    web1.archived(0, 6, list(range(0, 54, 9)), arrival=HOUR)
    assert missing(resent(web1).find()) == [(NAME, ((54, 90),))]


def test_they_are_sent_again_and_then_nothing_is_missing(web1: FrontEnd, ends: dict[int, int]) -> None:
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.counted((0, 72))
    web1.committed(10)
    web1.archived(0, 6, list(range(0, 54, 9)), arrival=HOUR)
    resend, said = resent(web1), list[str]()
    found = resend.find()
    assert missing(found) == [(NAME, ((54, 90),))]
    assert found is not None
    assert resend.send(found.lines, said.append) == {}
    assert web1.orders == [{NAME: 54}]
    assert said == [f"sent again, because it was missing: web1:{NAME}, bytes 54 to 89 (36 bytes)"]
    assert [resend.find() for _ in range(3)] == [None] * 3  # the edge has not read them again
    web1.read()
    ends[0] = 10
    assert resend.find() is None
    web1.counted((0, 90))
    web1.committed(position_at(1, 10))
    assert resend.find() is None
    web1.archived(position_at(1, 6), position_at(1, 10), list(range(54, 90, 9)), arrival=2 * HOUR)
    assert missing(resend.find()) == []


def test_a_store_that_is_away_is_asked_again(web1: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    web1.lost(0, 0, 0)
    web1.counted((0, 90))
    web1.committed(10)
    web1.archived(0, 10, [0], arrival=1)
    resend = resent(web1)

    def away(settings: Settings, topic: str) -> dict[int, int]:
        raise ConnectionError("no Kafka")

    with monkeypatch.context() as patch:
        patch.setattr("sluice.quality.resend.kafka_ends", away)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                resend.find()
    assert resend.find() == Finding()


def test_what_was_counted_of_a_file_that_is_gone_is_lost_for_good(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.counted((0, 45), (54, 90))
    web1.committed(10)
    web1.archived(0, 6, list(range(0, 45, 9)), arrival=HOUR)
    web1.path.unlink()
    found = resent(web1).find()
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
    resend, said = resent(web1), list[str]()
    found = resend.find()
    assert found is not None
    assert resend.send(found.lines, said.append) == {"web1": "its disk is full"}
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
    found = resent(web1).find()
    assert found is not None
    assert found.others is among
    assert found.gone == ()


def test_what_another_topic_counted_is_not_missing_in_the_one_an_edge_was_pointed_to(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    """It goes on where it had been, so the new topic's ledger lacks the beginning."""
    ends[0] = 2
    web1.lost(0, 0, 0)
    web1.counted((0, 54), topic="shop")
    web1.counted((54, 72))
    web1.committed(2)
    web1.archived(0, 2, [54, 63], arrival=1)
    assert missing(resent(web1).find()) == [(NAME, ((72, 90),))]


def test_a_damaged_row_of_another_topic_hides_nothing(web1: FrontEnd, ends: dict[int, int]) -> None:
    ends[0] = 2
    web1.lost(0, 0, 0)
    web1.counted((0, 0), (0, 9), topic="shop")  # its intervals are not disjoint
    web1.counted((0, 72))
    web1.committed(2)
    web1.archived(0, 2, [0, 63], arrival=1)
    assert missing(resent(web1).find()) == [(NAME, ((72, 90),))]


def test_of_such_a_file_the_archive_lacks_only_what_the_topic_counted(
    web1: FrontEnd, ends: dict[int, int]
) -> None:
    ends[0] = 3
    web1.lost(1, 2, 4)
    web1.counted((0, 54), topic="shop")
    web1.counted((54, 90))
    web1.committed(position_at(1, 3))
    web1.archived(position_at(1, 2), position_at(1, 3), [72], arrival=HOUR)
    assert missing(resent(web1).find()) == [(NAME, ((54, 72), (81, 90)))]


def test_gaps_between_replayed_letters_are_no_loss(web1: FrontEnd) -> None:
    """Neither of lines of no file, nor of a file that is gone."""
    web1.lost(0, 0, 0)
    web1.counted((0, 90))
    web1.counted((0, 900), name="log/rotated.log", topic="shop")
    web1.counted((45, 54), name="log/rotated.log")
    FrontEnd(web1.settings, web1.database, host=REPLAYED_HOST).counted((1 << 26, 2 << 26), name="shop/0/0")
    (web1.settings.home / "flume" / REPLAYED_HOST / "agent.json").unlink()
    web1.committed(10)
    web1.archived(0, 10, list(range(0, 90, 9)), arrival=1)
    assert resent(web1).find() == Finding()


def test_the_archive_is_read_only_for_files_that_may_have_lost_lines(
    web1: FrontEnd, ends: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    web2 = FrontEnd(web1.settings, web1.database, host="web2", name="log2/access.2026-01-05.log")
    web2.write(10)
    web2.read()
    web2.counted((0, 90))
    old, now = datetime.now(UTC) - timedelta(days=2), datetime.now(UTC)
    with web1.database.begin() as connection:
        connection.execute(sa.update(schema.ledger).values(last_seen=old))
    web1.counted((0, 90))
    asked: list[Mapping[tuple[str, str], int]] = []
    real = ArchivedBytes.read

    def noted(settings: Settings, topic: str, files: Mapping[tuple[str, str], int], arrival: int) -> object:
        asked.append(files)
        return real(settings, topic, files, arrival)

    monkeypatch.setattr(ArchivedBytes, "read", noted)
    ends[0] = 6
    web1.lost(1, 6, 10)
    web1.committed(10)
    web1.archived(0, 6, list(range(0, 54, 9)), arrival=round(now.timestamp() * 1000))
    assert missing(resent(web1).find()) == [(NAME, ((54, 90),))]
    began = datetime(2026, 1, 3, tzinfo=UTC)  # two days before the one in its name
    assert asked == [{("web1", NAME): round(began.timestamp() * 1000)}]


@pytest.mark.parametrize(
    ("expired", "archive_days", "beginning"),
    [(0, 30, [(0, 18)]), (9, 30, []), (9, 300, [(0, 18)])],
)
def test_what_the_retention_of_the_archive_may_have_deleted_is_not_sent_again(
    web1: FrontEnd,
    monkeypatch: pytest.MonkeyPatch,
    expired: int,
    archive_days: int,
    beginning: list[tuple[int, int]],
) -> None:
    """No line is found from before the loss: the file had been quiet for long, or had just begun."""
    monkeypatch.setattr(days, "today", lambda: datetime(2026, 6, 1, tzinfo=UTC).date())
    retention = web1.settings.retention.model_copy(update={"archive_days": archive_days})
    web1.settings = web1.settings.model_copy(update={"retention": retention})
    with web1.database.begin() as connection:
        row = {"topic": TOPIC, "topic_id": "id", "partition": 0, "next": expired, "lines": expired}
        connection.execute(sa.insert(schema.archive_floors).values(**row, records=expired))
    web1.lost(1, 6, 10)
    web1.counted((0, 90))
    web1.committed(position_at(1, 10))
    web1.archived(position_at(1, 6), position_at(1, 10), list(range(18, 72, 9)), arrival=HOUR)
    assert missing(resent(web1).find()) == [(NAME, (*beginning, (72, 90)))]
