"""`sluice tasks`, `sluice lists` and `sluice topics` as a person meets them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
import typer
from typer.testing import CliRunner

import sluice.cli.lists
import sluice.cli.tasks
import sluice.cli.topics
from sluice.cli.errors import explain
from sluice.metrics import metric
from sluice.runtime.settings import Settings, get_settings
from sluice.storage.postgres import engine
from sluice.tasks import TopicSpec, parse_tasks
from sluice.tasks.lists import ValueLists
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from tests.engine.samples import line
from tests.tasks.database import sqlite

GOOD = "- {name: %s, topic: cli-tasks, period: 1m, metrics: [count]}\n"
BY_STATUS = """
- name: by_status
  topic: logs
  period: 1m
  dimensions: [{name: status, extract: {delimiter: " ", index: 8}, filter: {mode: black, values: ["500"]}}]
  measure: {delimiter: " ", index: 9}
  metrics: [count, sum]
"""


@dataclass(frozen=True)
class Shown:
    exit_code: int
    output: str


def run(*arguments: str, text: str | bytes | None = None, app: typer.Typer = sluice.cli.tasks.app) -> Shown:
    """Run a command and handle errors like the console script: one line and an exit code."""
    result = CliRunner().invoke(app, arguments, input=text)
    error = result.exception
    if error is None or isinstance(error, SystemExit):
        return Shown(result.exit_code, result.output)
    explained = explain(error)
    if explained is None:
        raise error
    return Shown(explained.code, f"{result.output}sluice: {explained.message}")


def lists(*arguments: str, text: str | None = None) -> Shown:
    return run(*arguments, text=text, app=sluice.cli.lists.app)


def topics(*arguments: str, text: str | None = None) -> Shown:
    return run(*arguments, text=text, app=sluice.cli.topics.app)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    """Let the commands work on tables in memory."""
    tables = sqlite()
    monkeypatch.setattr(sluice.cli.tasks, "_store", lambda: TaskStore(tables))
    monkeypatch.setattr(sluice.cli.tasks, "_database", lambda: tables)
    monkeypatch.setattr(sluice.cli.lists, "_store", lambda: ValueLists(tables))
    monkeypatch.setattr(sluice.cli.topics, "_store", lambda: TopicStore(tables))
    monkeypatch.setattr(sluice.cli.topics, "_make", lambda names: [])  # Kafka has them all
    return tables


def test_a_bad_file_is_refused_with_one_line_per_problem(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(GOOD % "Hits" + GOOD % "other" + "  colour: red\n")
    result = run("apply", "-f", str(file))
    assert result.exit_code == 2
    assert f"{file} is refused, nothing was changed" in result.output
    assert "Traceback" not in result.output


def test_standard_input_is_refused_likewise() -> None:
    result = run("apply", "-f", "-", text="- {name: hits}")
    assert result.exit_code == 2
    assert "/0/metrics: this key is missing: add it" in result.output


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    result = run("apply", "-f", str(tmp_path / "none.yaml"))
    assert (result.exit_code, "No such file" in result.output) == (2, True)
    (tmp_path / "latin.yaml").write_bytes(b"- name: caf\xe9")
    result = run("apply", "-f", str(tmp_path / "latin.yaml"))
    assert (result.exit_code, "save it as UTF-8" in result.output) == (2, True)


@pytest.mark.parametrize("command", ["show", "delete", "pause", "resume", "history", "test"])
def test_an_unknown_task_is_usage(database: sa.Engine, command: str) -> None:
    result = run(command, "nothing")
    assert result.exit_code == 2
    assert "task 'nothing': `sluice tasks list` shows what there is" in result.output


def test_a_description_is_listed_and_shown(database: sa.Engine) -> None:
    run("apply", "-f", "-", text=GOOD.replace("topic:", "description: What is asked for, topic:") % "hits")
    (listed,) = json.loads(run("list", "--format", "json").output)
    assert listed["description"] == "What is asked for"
    assert "What is asked for" in run("list").output
    assert "\n  description: What is asked for\n" in run("show", "hits").output


@pytest.mark.slow
def test_pause_resume_and_history(database: sa.Engine) -> None:
    run("apply", "-f", "-", text=GOOD % "hits")
    assert run("pause", "hits").output == "hits: paused (1v1)\n"
    assert "paused" in run("list").output
    assert run("resume", "hits").output == "hits: active (1v1)\n"
    TaskStore(database).set_aside(1, 1, "RuntimeError: \x1b[31mboom")
    shown = run("list").output
    assert "failed" in shown
    assert "RuntimeError: \\x1b[31mboom" in shown
    actions = json.loads(run("history", "hits", "--format", "json").output)
    assert [each["action"] for each in actions] == ["created", "paused", "resumed", "failed"]


def test_diff_says_what_apply_would_do_and_so_does_its_exit_code(database: sa.Engine) -> None:
    run("apply", "-f", "-", text=GOOD % "hits")
    assert run("diff", "-f", "-", text=GOOD % "hits") == Shown(0, "hits: unchanged\n")
    result = run("diff", "-f", "-", text=(GOOD % "hits").replace("1m", "5m"))
    assert result.exit_code == 1
    assert "-  period: 1m\n+  period: 5m" in result.output
    assert TaskStore(database).get("hits").version == 1


def test_diff_shows_that_the_same_select_counts_differently(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "- {name: most, sql: \"SELECT max(bytes) FROM logs GROUP BY period('1m')\"}"
    run("apply", "-f", "-", text=text)
    monkeypatch.setattr(type(metric("max")), "measure", "any")  # like a team that changes its metric's file
    assert run("diff", "-f", "-", text=text) == Shown(1, "most: changed: measure\n")


def test_apply_says_that_a_changed_task_stays_paused(database: sa.Engine) -> None:
    run("apply", "-f", "-", text=GOOD % "hits")
    run("pause", "hits")
    changed = run("apply", "-f", "-", text=(GOOD % "hits").replace("1m", "5m"))
    assert changed == Shown(0, "hits: changed (1v2, paused: `sluice tasks resume hits`)\n")


def test_deleting_a_topics_last_task_says_what_ends(database: sa.Engine) -> None:
    run("apply", "-f", "-", text=GOOD % "one" + GOOD % "two")
    assert run("delete", "one", "--yes") == Shown(0, "one: deleted (1v1)\n")
    last = run("delete", "two", "--yes")
    assert "two is the last task on topic cli-tasks" in last.output
    assert last.exit_code == 0


def test_a_task_that_is_not_applied_yet_is_tried_on_lines(database: sa.Engine, tmp_path: Path) -> None:
    file, log = tmp_path / "tasks.yaml", tmp_path / "access.log"
    file.write_text(BY_STATUS)
    log.write_bytes(b"\n".join([line(size="17"), line(status="500"), line(size="-"), b"\x1b[31m"]) + b"\n")
    result = run("test", "-f", str(file), "--lines", str(log))
    assert result.exit_code == 0
    assert "by_status: 2 of 4 lines are counted" in result.output
    assert 'measure       "17"  = 17' in result.output
    assert 'status        "500"  on the black list: does not pass' in result.output
    assert 'measure       "-"  missing: counted apart' in result.output
    assert "not counted   dead letter: no event time" in result.output
    assert 'counted in    2015-05-17T10:05:00Z to 2015-05-17T10:06:00Z  status="200"' in result.output
    assert "\x1b" not in result.output
    assert run("show", "by_status").exit_code == 2  # nothing was made by it


def test_a_trial_for_programs(database: sa.Engine) -> None:
    run("apply", "-f", "-", text=BY_STATUS)
    result = run("test", "by_status", "--lines", "-", "--json", text=line() + b"\n")
    (found,) = json.loads(result.output)
    (tried,) = found["lines"]
    assert (found["task"], tried["counted"], tried["series"]) == ("by_status", True, {"status": "200"})
    assert (tried["period_start"], tried["measure"]["number"]) == ("2015-05-17T10:05:00Z", 512)


@pytest.mark.slow
def test_a_trial_of_what_apply_would_refuse(database: sa.Engine, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(BY_STATUS.replace('values: ["500"]', "set: bad"))
    result = run("test", "-f", str(file), "--lines", "-", text=line())
    assert (result.exit_code, "/0/dimensions/0/filter/set: there is no list" in result.output) == (2, True)
    file.write_text(BY_STATUS + file.read_text().replace("by_status", "second"))
    result = run("test", "-f", str(file), "--lines", "-", text=line())
    assert "/1/dimensions/0/filter/set: there is no list 'bad'" in result.output
    assert run("test", "--lines", "-", text=b"").exit_code == 2
    assert run("test", "by_status", "-f", str(file)).exit_code == 2


def test_a_trial_keeps_to_the_instances_limits(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLUICE_LIMITS__LINE_BYTES", "64")
    get_settings.cache_clear()
    run("apply", "-f", "-", text=BY_STATUS)
    assert "dead letter: line over 64 bytes" in run("test", "by_status", "--lines", "-", text=line()).output
    get_settings.cache_clear()


@pytest.mark.slow
def test_lists_from_apply_to_delete(database: sa.Engine) -> None:
    made = lists("apply", "-f", "-", text='good: ["200", "304"]')
    assert made == Shown(0, "good: created (version 1)\n")
    run("apply", "-f", "-", text=BY_STATUS.replace('values: ["500"]', "set: good"))
    changed = lists("apply", "-f", "-", text='good: ["200"]')
    assert changed.output == "good: changed (version 2)\n  task by_status: changed (1v2)\n"
    assert lists("show", "good").output == "good:\n- '200'\n"
    assert json.loads(lists("list", "--format", "json").output)[0]["tasks"] == "by_status"
    assert (lists("delete", "good", "-y").exit_code, lists("show", "nope").exit_code) == (2, 2)
    assert "used by by_status" in lists("delete", "good", "-y").output
    run("delete", "by_status", "-y")
    assert lists("delete", "good", "-y") == Shown(0, "good: deleted\n")


def test_a_file_of_lists_is_refused_as_a_whole(database: sa.Engine) -> None:
    result = lists("apply", "-f", "-", text="fine: [a]\nBad: [b]\nempty: []\nnumber: [1]\n")
    assert result.exit_code == 2
    assert [text for text in ("/Bad: ", "/empty: ", "/number: ") if text in result.output] == [
        "/Bad: ",
        "/empty: ",
        "/number: ",
    ]
    assert lists("list", "--format", "json").output == "[]\n"
    assert lists("apply", "-f", "-", text="[a, b]").exit_code == 2


@pytest.mark.slow
def test_topics_are_described_and_shown_as_they_were_given(database: sa.Engine) -> None:
    text = "- name: shop\n  format: json\n  time:\n    extract:\n      field: at\n    format: iso8601\n"
    assert topics("apply", "-f", "-", text=text) == Shown(0, "shop: created\n")
    assert topics("show", "shop").output == text
    assert topics("show", "logs").output == "- name: logs\n  format: combined\n"
    run("apply", "-f", "-", text=GOOD % "hits")
    assert topics("show", "cli-tasks").output == "- name: cli-tasks\n  format: combined\n"
    unknown = topics("show", "other")
    assert (unknown.exit_code, "there is no topic 'other'" in unknown.output) == (2, True)
    assert "the topics are cli-tasks, logs, shop" in unknown.output
    assert "shop" in topics("list").output
    twice = topics("apply", "-f", "-", text=text + text.replace("field: at", "field: when"))
    assert (twice.exit_code, "/1/name: 'shop' is the name of two topics here" in twice.output) == (2, True)
    refused = topics("apply", "-f", "-", text="- {name: shop, format: xml}\n- {name: _x}")
    assert refused.exit_code == 2
    assert "/0/format" in refused.output
    assert "/1/name" in refused.output
    assert TopicStore(database).get("shop") != TopicSpec(name="shop")


@pytest.mark.stack
def test_from_apply_to_delete(stack: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_INSTANCE", stack.instance)
    get_settings.cache_clear()
    name = f"t{uuid.uuid4().hex[:12]}"
    text = GOOD % name
    assert f"{name}: created" in run("apply", "-f", "-", text=text).output
    assert f"{name}: unchanged" in run("apply", "-f", "-", text=text).output
    assert name in run("list", "--topic", "cli-tasks").output
    for format_ in ("yaml", "json"):
        shown = run("show", name, "--format", format_).output
        assert parse_tasks(shown) == parse_tasks(text)
        assert format_ == "yaml" or json.loads(shown)
    assert run("show", name, "--format", "xml").exit_code == 2
    assert run("delete", name, text="n\n").exit_code == 1
    assert TaskStore(engine(stack)).get(name).name == name
    assert f"{name}: deleted" in run("delete", name, "--yes").output
    for command in ("show", "delete"):
        result = run(command, name)
        assert (result.exit_code, f"there is no task '{name}'" in result.output) == (2, True)
    get_settings.cache_clear()


def test_only_the_named_tasks_of_a_file_are_applied(database: sa.Engine, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(GOOD % "one" + GOOD % "two")
    assert run("apply", "-f", str(file), "two").output == "two: created (1v1)\n"
    refused = run("apply", "-f", str(file), "three")
    assert refused.exit_code
    assert "has no task three: it has one, two" in refused.output


@pytest.mark.slow
def test_the_list_names_first_tasks_that_cut_at_blanks(database: sa.Engine, tmp_path: Path) -> None:
    TaskStore(database).apply(parse_tasks(BY_STATUS.replace("by_status", "hits_by_status")), "sluice")
    command = "sluice tasks apply -f include/tasks.yaml hits_by_status"
    assert command in run("list").output
    assert not run("apply", "-f", "include/tasks.yaml", "hits_by_status").exit_code
    assert command not in run("list").output
