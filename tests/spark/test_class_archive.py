"""Spark's class archive: made again when what it was made from changes, and mapped by the JVMs that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.jvm import SPARK_CLASSES
from sluice.runtime.settings import Settings
from sluice.spark import class_archive
from sluice.stack import process_groups


@pytest.mark.slow
def test_what_is_there_is_not_made_again() -> None:
    class_archive.make()  # for who has not set up
    assert not class_archive.make()


def test_it_is_stale_once_a_jar_or_the_jvm_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = class_archive.stamp()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").touch()
    monkeypatch.setattr(class_archive, "spark_home", lambda: tmp_path)
    other = class_archive.stamp()
    assert other != before
    monkeypatch.setattr(class_archive, "java", lambda: "echo")  # prints what it is asked
    assert class_archive.stamp() not in (before, other)


@pytest.mark.stack
def test_the_sql_endpoint_maps_it(stack: Settings) -> None:
    """A JVM whose class path or version does not fit goes on without it and says nothing."""
    maps = [Path(f"/proc/{each.pid}/maps").read_text() for each in process_groups.of_daemon(stack, "sql")]
    assert any(str(SPARK_CLASSES) in each for each in maps)
