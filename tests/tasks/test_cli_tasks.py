"""`sluice tasks` as a person meets it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.tasks import app
from sluice.settings import Settings, get_settings
from sluice.storage.postgres import engine
from sluice.tasks import parse_tasks
from sluice.tasks.store import TaskStore

GOOD = "- {name: %s, topic: cli-tasks, period: 1m, metrics: [count]}\n"


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=text)


def test_a_bad_file_is_refused_in_a_line_a_problem(tmp_path: Path) -> None:
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
        assert (result.exit_code, f"there is no task '{name}'" in result.output) == (1, True)
    get_settings.cache_clear()
