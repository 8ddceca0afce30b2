"""The runbook's paragraphs by their anchors."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sluice.monitoring.flow.runbook import Runbook, anchor, sections
from sluice.runtime.settings import ROOT


def test_a_section_ends_where_the_next_begins_and_code_has_no_headings() -> None:
    text = "# Page\nbefore\n\n## One's\na\n```sh\n## no heading\n```\n### below\n## Two\nb"
    found = [(each.anchor, each.heading, each.text) for each in sections(text)]
    assert found == [
        ("ones", "One's", "a\n```sh\n## no heading\n```\n### below"),
        ("two", "Two", "b"),
    ]


def test_links_of_the_page_lead_to_its_sections() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text()
    known = {each.anchor for each in sections(text)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= known
    assert anchor("Airflow's page does not open") in known


def test_a_file_that_changed_is_read_again_and_none_has_no_sections(tmp_path: Path) -> None:
    path = tmp_path / "runbook.md"
    book = Runbook(path)
    assert book.sections() == {}
    path.write_text("## One\na")
    assert list(book.sections()) == ["one"]
    path.write_text("## Two\na")
    os.utime(path, (1, 1))
    assert list(book.sections()) == ["two"]
