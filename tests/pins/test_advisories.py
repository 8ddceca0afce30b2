"""A pin has the advisories whose versions it is in, and no others."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.pins.advisories import Record, affects, findings, fixed_by, load, reaches, save
from tests.pins.made_up import NETTY, known, record
from tests.pins.pinned import Pin


def has(version: str, ecosystem: str, **limits: str) -> bool:
    (affected,) = record(ecosystem=ecosystem, **limits)["affected"]
    return affects(affected, Pin(ecosystem, NETTY.name, version, "here"))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.1.99.Final", False),
        ("4.1.100.Final", True),
        ("4.1.132.Final", True),
        ("4.1.133.Final", False),
        ("4.1.133", False),
        ("4.2.1.Final", False),
    ],
)
def test_a_range_ends_before_the_fix(version: str, expected: bool) -> None:
    assert has(version, "Maven", introduced="4.1.100.Final", fixed="4.1.133.Final") is expected


def test_the_last_affected_version_is_affected() -> None:
    assert has("1.0", "Maven", last_affected="1.0.0")
    assert not has("1.0.1", "Maven", last_affected="1.0.0")


def test_without_a_fix_every_later_version_is_affected() -> None:
    assert has("99", "Maven", introduced="2.0")
    assert not has("1.9", "Maven", introduced="2.0")


def test_pythons_versions_compare_as_pythons() -> None:
    assert has("1.0rc1", "PyPI", fixed="1.0")
    assert not has("1.0.post1", "PyPI", fixed="1.0")
    assert has("1.10", "PyPI", introduced="1.9")
    with pytest.raises(ValueError, match="no version of a Python package"):
        has("main", "PyPI", fixed="1.0")


def test_versions_may_be_listed_one_by_one() -> None:
    affected = {"versions": ["1.2", "1.4"], "ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}
    assert affects(affected, Pin("PyPI", "x", "1.4", ""))
    assert not affects(affected, Pin("PyPI", "x", "1.3", ""))


def test_events_in_any_order_and_several_times() -> None:
    events = [{"fixed": "4.2.13"}, {"introduced": "0"}, {"introduced": "4.2"}, {"fixed": "4.1.133"}]
    affected: Record = {"ranges": [{"type": "ECOSYSTEM", "events": events}]}
    hit = [
        v for v in ("4.1.132", "4.1.140", "4.2.1", "4.2.13") if affects(affected, Pin("Maven", "x", v, ""))
    ]
    assert hit == ["4.1.132", "4.2.1"]


def test_a_pin_is_found_by_its_name_and_ecosystem() -> None:
    other = dataclasses.replace(NETTY, ecosystem="npm")
    assert [found.pin for found in findings([NETTY, other], known(record(fixed="4.1.133")))] == [NETTY]


def test_a_jar_without_a_group_is_found_by_its_artifact() -> None:
    bare = dataclasses.replace(NETTY, name="?:netty-codec-http")
    assert [found.pin for found in findings([bare], known(record(fixed="4.1.133")))] == [bare]


def test_two_records_of_one_weakness_are_one_finding() -> None:
    twice = known(record("GHSA-1", aliases=("CVE-1",)), record("CVE-1"))
    assert len(findings([NETTY], twice)) == 1


def test_what_was_withdrawn_is_nothing() -> None:
    assert findings([NETTY], known({**record(), "withdrawn": "2026-05-02"})) == []


def test_older_versions_alone_do_not_reach_a_pin() -> None:
    (past,) = record(fixed="4.1.132.Final")["affected"]
    (later,) = record(introduced="4.1.140.Final", fixed="4.1.141.Final")["affected"]
    (ever,) = record(introduced="4.2.0.Final")["affected"]
    assert [reaches(one, NETTY) for one in (past, later, ever)] == [False, True, True]


def test_the_remedy_is_the_first_version_without_all_of_them() -> None:
    early, late, branches = (
        record("GHSA-1", fixed="4.1.133.Final"),
        record("GHSA-2", fixed="4.1.136.Final"),
        record("GHSA-3", fixed="4.1.134.Final"),
    )
    branches["affected"][0]["ranges"][0]["events"] += [{"introduced": "4.2.0"}, {"fixed": "4.2.14.Final"}]
    assert fixed_by(findings([NETTY], known(early, late, branches))) == "4.1.136.Final"
    assert fixed_by(findings([NETTY], known(early, record("GHSA-4")))) is None


def test_a_record_is_a_line_and_what_is_saved_is_read_again(tmp_path: Path) -> None:
    both = known(record("GHSA-2"), record("GHSA-1"))
    save(both, tmp_path / "advisories.json")
    assert load(tmp_path / "advisories.json").records == [record("GHSA-1"), record("GHSA-2")]
    assert load(tmp_path / "advisories.json").sources == both.sources
    lines = (tmp_path / "advisories.json").read_text().splitlines()
    assert json.loads(lines[-2]) == record("GHSA-2")


def test_the_file_holds_facts_with_their_source_and_no_texts() -> None:
    allowed = {"id", "aliases", "modified", "published", "affected", "references", "database_specific"}
    content = load()
    assert content.records
    for one in content.records:
        assert one.keys() <= allowed, one["id"]
        assert [reference["url"] for reference in one["references"] if "://" in reference["url"]], one["id"]
        assert one["database_specific"].keys() <= {"severity", "source"}, one["id"]
        assert one["database_specific"]["source"] in content.sources, one["id"]
        for affected in one["affected"]:
            assert affected.get("ranges") or affected.get("versions"), one["id"]


def test_a_weakness_of_netty_is_known_up_to_its_fix() -> None:
    old, new = (
        Pin("Maven", "io.netty:netty-handler", version, "") for version in ("4.1.134.Final", "4.1.140.Final")
    )
    assert {found.pin for found in findings([old, new], load()) if "CVE-2026-50010" in found.aliases} == {old}
