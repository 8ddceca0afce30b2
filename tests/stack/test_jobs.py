"""What several archivers say of themselves, read as one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import jobs


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "run").mkdir()
    return Settings(instance="test", home=tmp_path)


def says(settings: Settings, member: str, age: float, state: str = "archiving", **partitions: int) -> None:
    """The member's partitions (p0, p1 ...) and their positions."""
    found: dict[str, Any] = {name[1:]: {"position": at} for name, at in partitions.items()}
    document = {"pid": 1, "updated_at": time.time() - age}
    document["topics"] = {"logs": {"state": state, "partitions": found}}
    (settings.home / "run" / f"{member}.progress.json").write_text(json.dumps(document))


def test_the_partitions_of_all_members_are_one_archiver_s(settings: Settings) -> None:
    says(settings, "archiver", 2, p0=5)
    assert jobs.progress(settings, "archiver")["topics"]["logs"]["partitions"] == {"0": {"position": 5}}
    says(settings, "archiver-2", 1, "waiting for Kafka", p1=7)
    found = jobs.progress(settings, "archiver")
    assert found["topics"]["logs"]["partitions"] == {"0": {"position": 5}, "1": {"position": 7}}
    assert found["topics"]["logs"]["state"] == "archiving"
    assert time.time() - found["updated_at"] > 1.5, "as old as the oldest"


def test_a_partition_that_moved_is_where_its_new_owner_says(settings: Settings) -> None:
    says(settings, "archiver", 0, p0=9)
    says(settings, "archiver-2", 5, p0=5, p1=1)
    partitions = jobs.progress(settings, "archiver")["topics"]["logs"]["partitions"]
    assert partitions == {"0": {"position": 9}, "1": {"position": 1}}


def test_a_member_that_was_stopped_long_ago_says_nothing(settings: Settings) -> None:
    says(settings, "archiver", 1, p0=9)
    says(settings, "archiver-2", 300, p0=5, p1=1)
    assert jobs.progress(settings, "archiver")["topics"]["logs"]["partitions"] == {"0": {"position": 9}}
    says(settings, "archiver", 400, p0=9)
    assert jobs.progress(settings, "archiver")["updated_at"] < time.time() - 300, "nobody lives"


def test_a_member_s_progress_is_that_of_its_own_partitions(settings: Settings) -> None:
    says(settings, "archiver", 1, p0=9)
    says(settings, "archiver-2", 1, p1=4)
    says(settings, "archiver-3", 1)
    assert jobs.position(settings, "archiver") == {"logs": {"0": 9}}
    assert jobs.position(settings, "archiver-2") == {"logs": {"1": 4}}
    assert jobs.position(settings, "archiver-3") is None, "without work it cannot be stuck"
    assert jobs.position(settings, "nothing") is None
