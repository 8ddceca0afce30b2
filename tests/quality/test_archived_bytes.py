"""What the archive has of a file, read backwards as far as it must be."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.archive.newest_files import ArrivedFile
from sluice.quality import archived_bytes
from sluice.quality.archived_bytes import MARGIN_MS, ArchivedBytes
from sluice.runtime.settings import Settings
from tests.quality.front_end import NAME, TOPIC, FrontEnd, no_hdfs
from tests.tasks.database import sqlite

KEY = ("web1", NAME)
HOUR = MARGIN_MS


@pytest.fixture
def web1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FrontEnd:
    settings = no_hdfs(Settings(instance="test", home=tmp_path, port_base=29_000))
    made = FrontEnd(settings, sqlite())
    monkeypatch.setattr(archived_bytes, "engine", lambda settings: made.database)
    return made


def holes(web1: FrontEnd, arrival: int, size: int, began: int = 0) -> list[list[int]]:
    return ArchivedBytes.read(web1.settings, TOPIC, {KEY: began}, arrival).holes(*KEY, size).tolist()


def test_all_of_the_archive_is_read_without_a_time(web1: FrontEnd) -> None:
    web1.archived(0, 2, [0, 9], arrival=1)
    web1.archived(2, 4, [36, 27], arrival=9 * HOUR)
    assert holes(web1, 0, 54) == [[18, 27], [45, 54]]


def test_it_is_not_read_further_back_than_to_a_line_from_before(
    web1: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    real = archived_bytes._lines

    def noted(settings: Settings, file: ArrivedFile) -> object:
        read.append(file.arrival_max)
        return real(settings, file)

    monkeypatch.setattr(archived_bytes, "_lines", noted)
    web1.archived(0, 1, [0], arrival=1)
    web1.archived(1, 3, [9, 18], arrival=6 * HOUR)
    web1.archived(3, 4, [36], arrival=9 * HOUR)
    assert holes(web1, 6 * HOUR, 45) == [[27, 36]]
    assert read == [9 * HOUR, 6 * HOUR]


def test_a_file_of_which_no_line_came_before_is_looked_for_in_all(web1: FrontEnd) -> None:
    """The first line that the archive has of it may come after a line that is lost."""
    web1.archived(0, 1, [0], arrival=1)
    web1.archived(3, 4, [18], arrival=9 * HOUR)
    assert holes(web1, 8 * HOUR, 27) == [[9, 18]]


def test_it_is_looked_for_no_further_back_than_it_can_have_begun(
    web1: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(archived_bytes, "_lines", lambda settings, file: read.append(file.arrival_max) or ())
    for number, hour in enumerate((1, 4, 9)):
        web1.archived(number, number + 1, [0], arrival=hour * HOUR)
    assert holes(web1, 8 * HOUR, 27, began=4 * HOUR) == [[0, 27]]
    assert read == [9 * HOUR, 4 * HOUR]


def test_a_file_that_nothing_is_archived_of_lacks_everything(web1: FrontEnd) -> None:
    assert holes(web1, 8 * HOUR, 27) == [[0, 27]]


def test_a_file_of_the_archive_that_cannot_be_read_is_left_out(
    web1: FrontEnd, caplog: pytest.LogCaptureFixture
) -> None:
    web1.archived(0, 1, [0], arrival=1)
    web1.archived(1, 2, [9], arrival=2)
    (web1.settings.home / "1.parquet").write_bytes(b"damaged")
    assert holes(web1, 0, 18) == [[0, 9]]
    assert "1.parquet is left out" in caplog.text
