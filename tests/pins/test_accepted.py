"""The reasoned list covers what it names, and says what it no longer needs."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.pins.accepted import divide, load, overdue, stale
from tests.pins.advisories import findings
from tests.pins.made_up import NETTY, TODAY, entry, known, record

FOUND = findings([NETTY], known(record("GHSA-1", aliases=("CVE-1",))))


@pytest.mark.parametrize("name", ["GHSA-1", "CVE-1"])
def test_an_entry_covers_by_any_name_of_the_advisory(name: str) -> None:
    covered, still = divide(FOUND, [entry(name)])
    assert ([finding for finding, _ in covered], still) == (FOUND, [])


@pytest.mark.parametrize(
    "other",
    [
        entry("GHSA-2"),
        entry("GHSA-1", packages=("io.netty:netty-handler",)),
        entry("GHSA-1", where=("flume/*",)),
    ],
)
def test_another_advisory_package_or_place_stays_open(other: object) -> None:
    assert divide(FOUND, [other]) == ([], FOUND)  # type: ignore[list-item]


def test_places_and_packages_take_stars() -> None:
    assert divide(FOUND, [entry("GHSA-1", packages=("io.netty:*",), where=("hbase/*",))])[1] == []


def test_what_matches_nothing_any_more_is_said() -> None:
    assert stale([entry("GHSA-1")], FOUND) == []
    assert "GHSA-9" in stale([entry("GHSA-1", "GHSA-9")], FOUND)[0]
    assert "flume/*" in stale([entry("GHSA-1", where=("hbase/*", "flume/*"))], FOUND)[0]
    assert "org.old:*" in stale([entry("GHSA-1", packages=(NETTY.name, "org.old:*"))], FOUND)[0]
    assert "GHSA-1" in stale([entry("GHSA-1")], [])[0]


def test_an_entry_ends_on_its_day() -> None:
    mine = entry("GHSA-1")
    assert overdue([mine], TODAY) == []
    assert "GHSA-1" in overdue([mine], TODAY + datetime.timedelta(days=1))[0]


@pytest.mark.parametrize("field", ["ids", "packages", "reason", "shown", "review_by"])
def test_an_entry_without_a_field_is_refused(tmp_path: Path, field: str) -> None:
    whole = {
        "ids": "[A]",
        "packages": "[b]",
        "reason": "no request ever reaches it",
        "shown": "a test",
        "review_by": "2027-01-01",
    }
    lines = [f"{key}: {value}" for key, value in whole.items() if key != field]
    (tmp_path / "accepted.yaml").write_text("- " + "\n  ".join(lines) + "\n")
    with pytest.raises(ValidationError, match=field):
        load(tmp_path / "accepted.yaml")


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="because"):
        type(entry("A")).model_validate(
            {**dataclasses.asdict(NETTY), **entry("A").model_dump(), "because": "x"}
        )
