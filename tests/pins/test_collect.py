"""Of a database's records only the facts about our packages are kept."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from tests.pins.collect import facts, records, renewed
from tests.pins.made_up import NETTY, TODAY, known, record

TEXTS = {"summary": "words", "details": "words", "credits": [{"name": "somebody"}]}


def test_texts_are_dropped() -> None:
    kept = facts({**record(fixed="9"), **TEXTS}, [NETTY], "GHSA")
    assert kept is not None
    assert "words" not in json.dumps(kept)
    assert kept["affected"] == record(fixed="9")["affected"]
    assert kept["references"] == [{"type": "ADVISORY", "url": "https://osv.dev/vulnerability/GHSA-1"}]
    assert kept["database_specific"] == {"severity": "HIGH", "source": "GHSA"}


def test_other_packages_and_what_was_withdrawn_are_left_out() -> None:
    assert facts(record(package="org.other:thing"), [NETTY], "GHSA") is None
    assert facts({**record(), "withdrawn": "2026-01-01"}, [NETTY], "GHSA") is None
    both = {**record(), "affected": [*record()["affected"], *record(package="org.other:thing")["affected"]]}
    kept = facts(both, [NETTY], "GHSA")
    assert kept is not None
    assert [one["package"]["name"] for one in kept["affected"]] == [NETTY.name]


def test_what_older_versions_alone_had_is_left_out() -> None:
    assert facts(record(fixed="4.1.132.Final"), [NETTY], "GHSA") is None
    assert facts(record(fixed="4.1.133.Final"), [NETTY], "GHSA") is not None


def test_a_source_that_is_read_again_is_replaced_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text(json.dumps(record("GHSA-9", aliases=("CVE-9",))))
    gone = {**record("GHSA-1"), "database_specific": {"source": "GHSA"}}
    now_in_the_database = record("CVE-9")
    before = known(gone, now_in_the_database, record("CVE-2"), record("CVE-3", fixed="4.0"))
    after = renewed(before, TODAY + datetime.timedelta(days=1), {"GHSA": tmp_path}, [NETTY])
    assert [(one["id"], one["database_specific"]["source"]) for one in after.records] == [
        ("GHSA-9", "GHSA"),
        ("CVE-2", "a database"),
    ]
    assert after.sources == {"a database": TODAY, "GHSA": TODAY + datetime.timedelta(days=1)}


def test_databases_are_folders_of_json_or_yaml(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.json").write_text(json.dumps(record("GHSA-1")))
    (tmp_path / "two.yaml").write_text("id: PYSEC-1\nmodified: 2024-01-02T03:04:05Z\naffected: []\n")
    (tmp_path / "README.md").write_text("words")
    assert [one["id"] for one in records(tmp_path)] == ["GHSA-1", "PYSEC-1"]
