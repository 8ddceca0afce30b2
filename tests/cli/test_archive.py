"""`sluice archive` without an archive: help and arguments."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sluice.cli.archive import app


@pytest.mark.parametrize("command", ["verify", "repair", "rebuild-index"])
def test_a_topic_must_be_named(command: str) -> None:
    found = CliRunner().invoke(app, [command])
    assert found.exit_code == 2
    assert "TOPIC" in found.output


def test_all_commands_are_listed() -> None:
    found = CliRunner().invoke(app, ["--help"])
    assert {"verify", "repair", "rebuild-index"} <= set(found.output.split())
