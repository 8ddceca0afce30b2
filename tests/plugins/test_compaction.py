"""The tasks that merge and delete files of the archive: each topic, and one that is busy is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sluice.archive import compaction, expiry, verification
from sluice.archive.compaction import Compacted, CompactionUnderWay
from sluice.archive.expiry import ExpiredFiles
from sluice.archive.file import ArchivedPartition


@pytest.fixture
def topics(home: Any, connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "archived_topics", lambda settings: ["busy", "logs", "shop"])


def place(topic: str) -> ArchivedPartition:
    return ArchivedPartition(topic, "id", 0)


def test_each_topic_is_compacted_but_one_that_another_compacts(
    topics: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow.compaction import Compaction

    def compact(settings: Any, topic: str, tell: Any) -> Iterator[Compacted]:
        if topic == "busy":
            raise CompactionUnderWay(topic)
        tell(f"{topic}: merged")
        yield Compacted(place(topic), 9, 8, 1, problems=("a file is damaged",))

    monkeypatch.setattr(compaction, "compact", compact)
    said = Compaction(task_id="compact").execute({})
    assert [each.split(" of ")[0] for each in said] == ["logs/0", "shop/0"]


def test_the_archive_s_oldest_files_are_deleted_of_each_topic(
    topics: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow.retention import ArchiveRetention

    def expire(settings: Any, topic: str) -> Iterator[ExpiredFiles]:
        if topic == "busy":
            raise CompactionUnderWay(topic)
        yield ExpiredFiles(place(topic), 2, 8, 0, 2)

    monkeypatch.setattr(expiry, "expire", expire)
    said = ArchiveRetention(task_id="archive").execute({})
    assert [each.split(" of ")[0] for each in said] == ["logs/0", "shop/0"]
