from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from sluice.collection.pattern import Pattern, PatternError

HOME = Path("/srv/x")


def test_home_and_date_are_expanded() -> None:
    pattern = Pattern.parse("{home}/frontends/web1/access.%Y-%m-%d.log", HOME)
    assert pattern.path(date(2026, 1, 5)) == Path("/srv/x/frontends/web1/access.2026-01-05.log")


def test_the_regex_matches_the_dated_names_and_no_other() -> None:
    regex = re.compile(Pattern.parse("/var/log/a+b.%Y%m%d-%H.log", HOME).regex)
    assert regex.fullmatch("a+b.20260105-23.log")
    assert not regex.fullmatch("aab.20260105-23.log")
    assert not regex.fullmatch("a+b.20260105-23xlog")
    assert not regex.fullmatch("a+b.20260105-23.log.1")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("/var/log/access.log", "%Y, %d, %m missing|%Y, %m, %d missing|missing"),
        ("/var/log/access.%Y-%m.log", "%d missing"),
        ("/var/log/%Y/access.%m-%d.log", "directory"),
        ("logs/access.%Y-%m-%d.log", "not absolute"),
        ("{home}/../x/access.%Y-%m-%d.log", r"\.\."),
        ("{home}/./access.%Y-%m-%d.log", "write it out"),
        ("{root}/access.%Y-%m-%d.log", "braces"),
        ("/var/log/access.%Y-%m-%d.%s.log", "%s is not supported"),
        ("/var/log/access.%Y-%m-%d.log%", "not supported"),
        ("/var/log/$(x)/access.%Y-%m-%d.log", "only letters"),
        ("/var/log/*/access.%Y-%m-%d.log", "only letters"),
    ],
)
def test_what_breaks_identity_is_refused(text: str, remedy: str) -> None:
    with pytest.raises(PatternError, match=remedy):
        Pattern.parse(text, HOME)


@pytest.mark.parametrize(
    ("pattern", "name", "day"),
    [
        ("/l/access.%Y-%m-%d.log", "access.2026-01-05.log", date(2026, 1, 5)),
        ("/l/%d+%m.%Y_%H", "05+01.2026_23", date(2026, 1, 5)),
        ("/l/%Y%m%d.%Y", "20260105.2026", date(2026, 1, 5)),
        ("/l/%Y%m%d.%Y", "20260105.2025", None),
        ("/l/access.%Y-%m-%d.log", "access.2026-02-30.log", None),
        ("/l/access.%Y-%m-%d.log", "other.log", None),
    ],
)
def test_the_day_in_a_name(pattern: str, name: str, day: date | None) -> None:
    assert Pattern.parse(pattern, Path("/home")).day(name) == day


def test_files_lists_what_is_there(tmp_path: Path) -> None:
    for name in ("access.2026-01-06.log", "access.2026-01-05.log", "access.log", "access.2026-01-05.log.gz"):
        (tmp_path / name).touch()
    found = Pattern.parse(f"{tmp_path}/access.%Y-%m-%d.log", HOME).files()
    assert [p.name for p in found] == ["access.2026-01-05.log", "access.2026-01-06.log"]
    assert Pattern.parse("/nowhere/access.%Y-%m-%d.log", HOME).files() == []
