"""docs/decisions has an index with each record, and what the code and the docs say of a record is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.runtime.settings import ROOT

FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
INDEX = FOLDER / "README.md"
ROW = re.compile(r"(?m)^\| \[(\d{4})\]\(([^)]+)\) \| (.*) \|$")
SUPERSEDED = re.compile(r" \(superseded(?: in part)? by (?:\[\d{4}\]\([^)]+\)(?:, )?)+\)$")
#: How comments and docs name a record without a link.
FOLDERS = ("dags", "docker", "docs", "include", "jobs", "plugins", "tests")
TEXTS = {".conf", ".html", ".j2", ".java", ".md", ".py", ".sh", ".sql", ".xml", ".yaml"}
NAMED = re.compile(r"(?:ADR |decisions/)(\d{4})\b")


def heading(record: Path) -> str:
    return record.read_text().split("\n", 1)[0]


def test_every_record_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert numbers
    assert len(numbers) == len(set(numbers))


def test_the_index_has_each_record_once_with_its_heading() -> None:
    """So a record that is superseded is marked in both."""
    listed = [
        f"{number} {file}: # {number} {title}" for number, file, title in ROW.findall(INDEX.read_text())
    ]
    assert sorted(listed) == [f"{record.name[:4]} {record.name}: {heading(record)}" for record in RECORDS]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_superseded_record_links_to_what_replaced_it(record: Path) -> None:
    title = heading(record)
    assert ("supersede" in title) == bool(SUPERSEDED.search(title))
    for number, file in re.findall(r"\[(\d{4})\]\(([^)]+)\)", title):
        assert (FOLDER / file).exists()
        assert record.name[:4] in (FOLDER / file).read_text(), f"{number} does not say what it replaces"


@pytest.mark.slow
def test_a_record_that_is_named_is_there() -> None:
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS)
    named = {number for path in files for number in NAMED.findall(path.read_text())}
    assert named
    assert named <= {record.name[:4] for record in RECORDS}
