"""`sluice metrics`, as a user sees it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.cli.test_main import sluice

pytestmark = pytest.mark.slow


def test_every_metric_is_shown_with_what_it_is() -> None:
    shown = sluice("metrics", "--format", "csv")
    assert shown.returncode == 0, shown.stderr
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(shown.stdout))}
    assert {"count", "sum", "unique", "p50", "top10", "geometric_mean"} <= rows.keys()
    assert (rows["unique"]["result"], rows["sum"]["result"]) == ("estimated", "exact")
    assert (rows["geometric_mean"]["by"], rows["count"]["computed of"]) == ("team", "nothing")
    assert all(len(row["what it is"]) > 10 for row in rows.values())


@pytest.mark.parametrize(
    ("source", "says"), [("import nothing_like_it", "nothing_like_it"), ("x = 1", "no subclass")]
)
def test_a_file_that_cannot_be_loaded_is_named(tmp_path: Path, source: str, says: str) -> None:
    (tmp_path / "mine.py").write_text(source)
    shown = sluice("metrics", SLUICE_METRICS__PATH=str(tmp_path))
    assert shown.returncode == 1
    assert "mine.py is not loaded" in shown.stderr
    assert says in shown.stderr
    assert "count" in shown.stdout
