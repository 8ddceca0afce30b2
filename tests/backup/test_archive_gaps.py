"""Gaps are closed before a recovery counts: what comes again afterwards counts once, in both layers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from sluice.archive import index, indexing, service, verification
from sluice.archive.file import of_loss
from sluice.archive.verification import rebuild
from sluice.backup import archive_gaps
from sluice.backup.archive_commits import ArchiveCommits
from sluice.backup.archive_gaps import ArchiveHasGaps, close
from sluice.runtime.positions import Era
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.stores import LocalStore
from sluice.storage.tables import eras, schema
from sluice.transmission.topics import TopicMissing, Topics
from tests.archive.archive_trial import Trial, trial_of
from tests.archive.local_archive import PLACE
from tests.backup.stores import silent
from tests.erasure.two_books import TwoBooks


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoBooks:
    """A topic of three files, of which the second one is gone; Kafka has no such topic (the fault)."""
    made = TwoBooks(tmp_path)
    for _ in range(3):
        made.send(made.write(10))
    gone = made.archive.directory + "/" + made.archive.names()[1]
    Path(gone).rename(tmp_path / "elsewhere")
    other = TwoBooks(tmp_path)
    other.sent, other.archive.position = made.sent, made.archive.position
    for module in (index, verification, service):
        monkeypatch.setattr(module, "engine", lambda settings: other.database)
    for module in (verification, service):
        monkeypatch.setattr(module, "HdfsStore", SimpleNamespace(of=lambda settings: LocalStore()))

    def repair(settings: Settings, topic: str, *, deep: bool) -> None:
        raise TopicMissing(topic)

    monkeypatch.setattr(archive_gaps, "repair", repair)
    list(rebuild(other.archive.settings, "logs"))
    return other


def local(books: TwoBooks) -> Settings:
    settings = books.archive.settings
    hdfs = settings.hdfs.model_copy(update={"namenode": ""})  # paths of this machine
    return settings.model_copy(update={"hdfs": hdfs})


def counted(books: TwoBooks) -> tuple[int, int, int]:
    with books.database.connect() as connection:
        counts = [row.counts for row in connection.execute(sa.select(schema.commits))]
    first, second, third = (sum(each[name] for each in counts) for name in ("counted", "dead", "doubled"))
    return first, second, third


def test_a_recovery_stops_at_a_gap_until_it_is_a_loss(books: TwoBooks) -> None:
    settings = books.archive.settings
    with pytest.raises(ArchiveHasGaps, match=r"logs/3, offsets 5 to 9\. Once .* give `--declare-lost`"):
        close(settings, "logs", declare_lost=False, tell=silent)
    assert len(books.archive.standing()) == 2  # nothing was changed
    said: list[str] = []
    (found,) = close(settings, "logs", declare_lost=True, tell=said.append)
    assert (found.problems, found.lacking, len(said)) == ((), (), 1)
    with books.database.connect() as connection:
        lost = connection.execute(sa.select(schema.archive_losses)).one()
    assert (lost.first, lost.next) == (5, 10)
    assert close(settings, "logs", declare_lost=False, tell=said.append) == (found,)
    assert len(said) == 1


def test_lines_of_the_gap_that_come_again_count_once(books: TwoBooks) -> None:
    close(books.archive.settings, "logs", declare_lost=True, tell=silent)
    ArchiveCommits(local(books), books.database, "logs").write(silent)
    counted_lines, dead, doubled = counted(books)
    assert (counted_lines + dead, doubled) == (20, 0)
    books.send(books.sent)  # as a front-end does that is asked for one line, and sends all
    ArchiveCommits(local(books), books.database, "logs").write(silent)
    counted_lines, dead, doubled = counted(books)
    assert (counted_lines + dead, doubled) == (30, 20)
    days, _, letters = books.batch_layer()
    assert (sum(lines for _, lines in days), letters) == (counted_lines, dead)


def test_nobody_can_fill_the_gap_afterwards(books: TwoBooks, tmp_path: Path) -> None:
    close(books.archive.settings, "logs", declare_lost=True, tell=silent)
    names = books.archive.names()
    claims = books.archive.claims()
    stands, _ = claims.publish(of_loss(PLACE, 5, 8, "by hand", 1))
    assert stands.next == 10  # the name is taken
    (tmp_path / "elsewhere").rename(claims.path(6))  # under another one
    with pytest.raises(verification.UnreadableArchiveFile):
        indexing.reconcile(books.database, claims, PLACE)
    Path(claims.path(6)).unlink()
    assert books.archive.names() == names


@pytest.fixture
def trial(stack: Settings, tmp_path: Path) -> Iterator[Trial]:
    with trial_of(stack, tmp_path) as made:
        yield made


@pytest.mark.stack
def test_what_kafka_has_is_archived_before_it_is_counted(trial: Trial) -> None:
    settings, name = trial.settings, trial.topic
    for partition in (0, 1):
        trial.produce(30, partition=partition)
        for first, following in ((0, 10), (15, 20)):
            trial.claims(partition).publish(of_loss(trial.place(partition), first, following, "a test", 0))
    with Topics(settings) as topics:
        ends = topics.log_ends(name, [0, 1])
    begun = [(number, Era(0, trial.topic_id, 0, ends[number].epoch)) for number in (0, 1)]
    eras.add(engine(settings), name, begun)
    list(rebuild(settings, name))
    trial.delete_records(1, 12)
    said: list[str] = []
    with pytest.raises(ArchiveHasGaps, match=f"{name}/1, offsets 10 to 14"):
        close(settings, name, declare_lost=False, tell=said.append)
    assert said == [f"{name}/0: 5 lines from Kafka, offset 10 on"]
    found = close(settings, name, declare_lost=True, tell=said.append)
    assert sorted((each.partition, each.lines, each.next, each.problems) for each in found) == [
        (0, 5, 20, ()),
        (1, 0, 20, ()),
    ]
