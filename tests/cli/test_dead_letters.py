"""`sluice deadletters`: what it prints, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from sluice.cli.dead_letters import app
from sluice.cli.errors import USAGE, explain
from sluice.letters import replay as sending
from sluice.letters import whole
from sluice.letters.line_replay import ReplayReport
from sluice.letters.replay import ReplayRequest
from sluice.storage import postgres
from sluice.tasks.topic_spec import TopicSpec
from sluice.tasks.topics import TopicStore
from tests.letters.made import AT, book, letter
from tests.tasks.database import sqlite

HOSTILE = b'{"at": "2015-05-17T10:05:03Z"}\x1b[2J\x9b\r\n\xe2\x80\xae'
SHOP = TopicSpec.model_validate(
    {"name": "shop", "format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
)


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    made = sqlite()
    for module in (postgres, whole, sending):
        monkeypatch.setattr(module, "engine", lambda settings: made)
    TopicStore(made).apply(SHOP, "ann")
    book(
        made,
        *(letter(n) for n in range(3)),
        letter(3, HOSTILE, src_file="evil\x1b]0;.log"),
        letter(4, b"long", reason="forged", host="kafka", src_file="logs/0"),
    )
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    found = run(*arguments)
    assert found.exception is not None
    explained = explain(found.exception)
    assert explained is not None, found.exception
    assert explained.code == USAGE
    return explained.message


def test_a_list_counts_and_shows_the_newest() -> None:
    found = run("list", "logs", "--limit", "2")
    assert found.exit_code == 0, found.output
    groups, newest = found.stdout.split("\n\n")
    assert "no event time        3          0  web1   a.log" in groups
    assert [line.split()[0] for line in newest.splitlines()[2:]] == ["0/4.0", "0/3.0"]
    assert not set(found.stdout) & {"\x1b", "\x9b", "\r", "\u202e"}
    assert "\\x1b[2J" in newest


def test_a_list_for_programs_has_everything() -> None:
    found = json.loads(run("list", "logs", "--format", "json").stdout)
    assert [each["letters"] for each in found["groups"]] == [3, 1, 1]
    assert [each["id"] for each in found["newest"]] == [f"0/{n}.0" for n in (4, 3, 2, 1, 0)]
    rows = list(csv.DictReader(io.StringIO(run("list", "logs", "--format", "csv").stdout)))
    assert [row["letters"] for row in rows] == ["3", "1", "1"]


def test_a_list_is_of_a_reason_and_a_time() -> None:
    since = (AT + timedelta(seconds=1)).isoformat()
    until = (AT + timedelta(seconds=3)).isoformat()
    chosen = ("--reason", "no event time", "--from", since, "--to", until)
    found = json.loads(run("list", "logs", *chosen, "--format", "json").stdout)
    assert [each["id"] for each in found["newest"]] == ["0/2.0", "0/1.0"]
    assert "no dead letters" in run("list", "logs", "--since", "10m").stdout
    assert "0/4.0" in run("list", "logs", "--since", "2h").stdout


def test_many_groups_are_cut_and_counted(database: sa.Engine) -> None:
    book(database, *(letter(n, src_file=f"{n}.log") for n in range(100, 160)))
    assert "and 13 more groups" in run("list", "logs").stdout


def test_a_topic_whose_tasks_are_gone_still_has_its_letters(database: sa.Engine) -> None:
    book(database, letter(1, topic="old"))
    assert "0/1.0" in run("list", "old").stdout
    assert "No time in brackets" in run("show", "old", "0/1.0").stdout


def test_one_letter_is_shown_with_its_whole_line_and_harms_no_terminal() -> None:
    found = run("show", "logs", "0/3.0")
    assert found.exit_code == 0, found.output
    shown = found.stdout
    assert not set(shown) & {"\x1b", "\x9b", "\r", "\u202e"}
    assert shown.splitlines()[-1] == r'{"at": "2015-05-17T10:05:03Z"}\x1b[2J\x9b\x0d\x0a\u202e'
    assert r"file            evil\x1b]0;.log" in shown
    assert "Kafka           partition 0, offset 3, line 0" in shown
    assert "No time in brackets" in shown
    assert "sluice deadletters replay logs --into TOPIC" in shown


def test_topics_that_read_the_line_are_named(database: sa.Engine) -> None:
    book(database, letter(9, b'{"at": "2015-05-17T10:05:03Z"}'))
    assert "topic shop, as of 2015-05-17T10:05:03Z" in run("show", "logs", "0/9.0").stdout


def test_a_letter_without_a_line_shows_its_beginning(database: sa.Engine) -> None:
    book(database, letter(9, b"\0\0", reason="undecodable", unreadable="undecodable: x", last_offset=11))
    shown = run("show", "logs", "0/9").stdout
    assert "the first 2 bytes\n\\x00\\x00" in shown
    assert "last offset     11" in shown


def test_an_export_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "letters.jsonl"
    found = run("export", "logs", "--out", str(path), "--reason", "no event time")
    assert found.stdout == f"{path}: 4 dead letters\n"
    assert len(path.read_text().split("\n")) == 5
    assert "--force" in refused("export", "logs", "--out", str(path))
    assert run("export", "logs", "--out", str(path), "--force").exit_code == 0


def test_a_replay_sends_the_letters_that_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def replay(settings: Any, chosen: Any, asked: ReplayRequest) -> ReplayReport:
        given.append((chosen.reason, asked.topic, asked.into, asked.dry_run))
        return ReplayReport(9, 4, read=[HOSTILE])

    monkeypatch.setattr(sending, "replay_letters", replay)
    found = run("replay", "logs", "--into", "shop", "--dry-run", "--reason", "forged")
    assert "4 of 9 dead letters of logs would be sent to shop" in found.stdout
    assert "as shop reads it" in found.stdout
    assert not set(found.stdout) & {"\x1b", "\x9b", "\r", "\u202e"}
    assert "4 of 9 dead letters of logs were sent to shop" in run("replay", "logs", "--into", "shop").stdout
    assert given == [("forged", "logs", "shop", True), ("", "logs", "shop", False)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "lgos"], "there is no topic 'lgos'"),
        (["list", "logs", "--since", "soon"], "--since: 'soon' is no duration"),
        (["list", "logs", "--since", "1h", "--from", "2015-05-17"], "--since and --from"),
        (["list", "logs", "--from", "soon"], "--from: 'soon' is no time"),
        (["show", "logs", "three"], "'three' is no id"),
        (["show", "logs", "0/99.0"], "has no dead letter 0/99.0"),
        (["export", "logs", "--out", "letters.xlsx"], "ends with none of"),
        (["replay", "logs", "--into", "logs"], "its format never changes"),
        (["replay", "logs", "--into", "shop"], "no active task reads topic 'shop'"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], said: str) -> None:
    assert said in refused(*arguments)
