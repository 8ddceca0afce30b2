"""The figures' way into docs/containers.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.containers import page


def test_the_page_has_a_place_for_the_figures() -> None:
    text = page.PAGE.read_text()
    assert page.replaced(text, "") != page.replaced(text, "| new |")


def test_a_second_run_replaces_the_first(tmp_path: Path) -> None:
    measured, made = tmp_path / "containers.json", tmp_path / "page.md"
    made.write_text(f"# Before\n{page.BEGIN}{page.END}after\n")
    for seconds in (1234.5, 7.2):
        measured.write_text(json.dumps({"up, until healthy, s": seconds}))
        assert page.main(measured, made) == 0
    text = made.read_text()
    assert "| up, until healthy | 7 s |" in text
    assert "1,23" not in text
    assert text.startswith("# Before")
    assert text.endswith("after\n")


def test_a_page_without_a_place_is_named() -> None:
    with pytest.raises(ValueError, match="put them back"):
        page.replaced("# Containers", "")


def test_without_a_run_it_says_what_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert page.main(tmp_path / "none.json", tmp_path) == 1
    assert "make test-containers" in capsys.readouterr().err
