"""Progress files: what is written is read, and what cannot be read counts as not written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from sluice.stack.progress import (
    ArchivedTopic,
    ArchiverProgress,
    ArchivingState,
    CountedTopic,
    PartitionProgress,
    ProgressFile,
    SpeedLayerProgress,
    WatchProgress,
    read,
    write,
)

AT = datetime(2026, 11, 23, 12, 30, 0, 125_000, tzinfo=UTC)


def test_each_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    hot = {"task": "hits", "hot": [{"key": ["a\0b", "\ud83d"]}]}  # half of a character, as lines may have it
    archived = ArchivedTopic(state=ArchivingState.NO_KAFKA, partitions={3: PartitionProgress(position=7)})
    documents: list[ProgressFile] = [
        SpeedLayerProgress(pid=7, updated_at=AT, topics={"logs": CountedTopic(grouping={"1v1": hot})}),
        ArchiverProgress(updated_at=AT, topics={"logs": archived}),
        WatchProgress(updated_at=AT, lag=None),
    ]
    for document in documents:
        write(tmp_path / "file", document)
        assert read(tmp_path / "file", type(document)) == document


def test_times_are_in_one_format(tmp_path: Path) -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=8)))
    for kind in (SpeedLayerProgress, ArchiverProgress, WatchProgress):
        write(tmp_path / "file", kind(updated_at=elsewhere))
        said = json.loads((tmp_path / "file").read_text())
        assert said["updated_at"] == "2026-11-23T12:30:00.125+00:00"


def test_what_only_readers_know_is_not_in_the_file(tmp_path: Path) -> None:
    topic = CountedTopic(driver="speed_layer-2", updated_at=AT)
    write(tmp_path / "file", SpeedLayerProgress(updated_at=AT, topics={"logs": topic}))
    (found,) = read(tmp_path / "file", SpeedLayerProgress).topics.values()
    assert (found.driver, found.updated_at) == (None, None)


@pytest.mark.parametrize("content", [None, "", "[1]", "{", '{"topics": {"logs": {"state": "away"}}}'])
def test_what_cannot_be_read_counts_as_not_written(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "file").write_text(content)
    for kind in (SpeedLayerProgress, ArchiverProgress):
        assert read(tmp_path / "file", kind) == kind()


def test_files_of_earlier_releases_are_read(tmp_path: Path) -> None:
    """They have fewer fields and others, and archivers wrote seconds."""

    def old(kind: type[Any], document: dict[str, Any]) -> Any:
        (tmp_path / "file").write_text(json.dumps(document))
        return read(tmp_path / "file", kind)

    partition = {"state": "archiving", "position": 7, "buffered": 0, "files": 1, "lines": 20, "message": ""}
    archiver = {"state": "archiving", "generation": 4, "partitions": {"0": partition}, "age": 0.5}
    found = old(
        ArchiverProgress, {"pid": 1, "updated_at": AT.timestamp(), "topics": {"logs": archiver}, "new": 1}
    )
    assert (found.updated_at, found.topics["logs"].partitions[0].position) == (AT, 7)
    driver = {"state": "counting", "errors": [], "seq": 17, "end": {"0": 2500}, "lines": 9}
    found = old(
        SpeedLayerProgress, {"state": "running", "updated_at": AT.isoformat(), "topics": {"logs": driver}}
    )
    assert (found.updated_at, found.topics["logs"].seq, found.topics["logs"].batches) == (AT, 17, 0)
    assert old(WatchProgress, {"at": AT.timestamp(), "daemons": {}, "lag": {}}).updated_at is None
