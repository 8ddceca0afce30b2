from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sluice.quality import old_pages
from sluice.quality.expectations import FOLDERS
from sluice.runtime.settings import Settings

NOW = datetime(2026, 1, 20, tzinfo=UTC)


def test_comparisons_of_long_ago_go_and_their_days_with_them(tmp_path: Path) -> None:
    for base in FOLDERS:
        for day, time, age in (("2024-05-17", "a", 500), ("2026-01-01", "b", 500), ("2026-01-01", "c", 5)):
            folder = tmp_path / base / "results" / f"logs {day}" / time
            folder.mkdir(parents=True)
            page = folder / "page.html"
            page.write_text("page")
            at = (NOW - timedelta(days=age)).timestamp()
            for path in (page, folder):
                os.utime(path, (at, at))
    (tmp_path / "data_docs" / "index.html").write_text("index")
    (tmp_path / "data_docs" / "static").mkdir()
    settings = Settings(instance="test", home=tmp_path)
    assert old_pages.delete(settings, NOW - timedelta(days=400)) == 4
    for base in FOLDERS:
        left = [path.relative_to(tmp_path / base) for path in (tmp_path / base).rglob("*.html")]
        assert left == [Path("results/logs 2026-01-01/c/page.html")]
        assert not (tmp_path / base / "results" / "logs 2024-05-17").exists()
    assert (tmp_path / "data_docs" / "index.html").exists()


def test_an_instance_without_pages_has_none_to_delete(tmp_path: Path) -> None:
    assert old_pages.delete(Settings(instance="test", home=tmp_path / "none"), NOW) == 0
