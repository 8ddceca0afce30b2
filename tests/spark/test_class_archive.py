"""Spark's class archive is made again when its sources change, and running JVMs map it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.jvm import SPARK_CLASSES
from sluice.runtime.settings import Settings
from sluice.spark import class_archive
from sluice.stack import process_groups


@pytest.mark.slow
def test_an_existing_archive_is_not_made_again() -> None:
    class_archive.make()  # in case it was never made
    assert not class_archive.make()


def test_it_is_stale_once_a_jar_or_the_jvm_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = class_archive.stamp()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").touch()
    monkeypatch.setattr(class_archive, "spark_home", lambda: tmp_path)
    other = class_archive.stamp()
    assert other != before
    monkeypatch.setattr(class_archive, "java", lambda: "echo")  # prints its arguments
    assert class_archive.stamp() not in (before, other)


@pytest.mark.stack
def test_the_sql_endpoint_maps_it(stack: Settings) -> None:
    """A JVM whose class path or version does not fit silently runs without it."""
    maps = [Path(f"/proc/{each.pid}/maps").read_text() for each in process_groups.of_daemon(stack, "sql")]
    assert any(str(SPARK_CLASSES) in each for each in maps)
