"""Dead letters go to a topic that reads them, by commands that are killed, repeated and run side by side."""

from __future__ import annotations

import datetime as dt
import json
import secrets
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sluice.stack.environment import environment
from sluice.storage.postgres import engine
from sluice.storage.tables.dead_letters import LetterFilter, groups
from sluice.transmission.topics import Topics
from sluice_lab.waiting import until
from tests.e2e.half_of_a_file import send
from tests.e2e.running import COMMAND_SECONDS, Platform
from tests.e2e.test_lost_tail import at_rest

pytestmark = pytest.mark.e2e

DAY = dt.date(2024, 6, 1)
#: More than two portions of a replay.
LINES = 2_500
LONG = 900
TOPICS = """
- name: {right}
  format: json
  time: {{extract: {{field: at}}, format: iso8601}}
"""
TASKS = """
- name: {wrong}_hits
  topic: {wrong}
  period: 1d
  metrics: [count]
- name: {right}_hits
  topic: {right}
  period: 1d
  dimensions: [{{name: n, extract: {{field: n}}}}]
  metrics: [count]
"""


def line(number: int) -> bytes:
    """Some are longer than what the table of dead letters keeps of them."""
    filling = "x" * (9_000 if number >= LINES - LONG else 0)
    return json.dumps({"at": f"{DAY}T10:00:00Z", "n": f"n{number}", "filling": filling}).encode()


def test_each_replayed_line_counts_once_in_both_layers(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = secrets.token_hex(4)
    wrong, right = f"wrong_{name}", f"right_{name}"
    with Topics(platform.settings) as topics:
        topics.create(wrong, partitions=2)
    for arguments, text in ((("topics", "apply"), TOPICS), (("tasks", "apply"), TASKS)):
        done = platform.sluice(*arguments, "-f", "-", text=text.format(wrong=wrong, right=right))
        assert done.returncode == 0, done.stderr
    send(platform.settings, wrong, [*map(line, range(LINES)), b"no line of anything"])
    hops = at_rest(platform, wrong)
    assert (hops.online, hops.dead_lettered) == (0, LINES + 1), hops
    dry = ("deadletters", "replay", wrong, "--into", right, "--dry-run", "--format", "json")
    looked = until(lambda: _done(platform, *dry), what="the tasks of the right topic are counted")
    assert {each["number"] for each in json.loads(looked.stdout)} == {LINES, 1}
    monkeypatch.setenv("SLUICE_FAULT", "replay_sent:2")
    killed = platform.sluice("deadletters", "replay", wrong, "--into", right)
    assert killed.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}, killed.stderr
    monkeypatch.delenv("SLUICE_FAULT")
    command = [sys.executable, "-m", "sluice.cli.main", "--instance", platform.settings.instance]
    replay = [*command, "deadletters", "replay", wrong, "--into", right]
    both = [subprocess.Popen(replay) for _ in range(2)]
    assert [each.wait(COMMAND_SECONDS) for each in both] == [0, 0]
    hops = at_rest(platform, right)
    assert (hops.online, hops.dead_lettered, hops.disagreements) == (LINES, 0, ()), hops
    again = platform.sluice("deadletters", "replay", wrong, "--into", right)
    assert f"0 of {LINES + 1:,} dead letters" in again.stdout, again
    night = [sys.executable, str(platform.settings.root / "jobs" / "nightly.py"), "--topic", right]
    subprocess.run(
        [*night, "--day", DAY.isoformat(), "--run-id", "letters"],
        env=environment(platform.settings), check=True, timeout=COMMAND_SECONDS,
    )  # fmt: skip
    wanted = Counter({(f"n{n}",): 1 for n in range(LINES)})
    for layer in ("online", "offline"):
        values = platform.counted(f"{right}_hits", DAY, layer).values
        assert Counter({series[1]: metrics["count"] for series, metrics in values.items()}) == wanted
    assert at_rest(platform, wrong).dead_lettered == LINES + 1  # there they stay what they are
    exported = tmp_path / "letters.jsonl"
    done = platform.sluice("deadletters", "export", wrong, "--out", str(exported))
    assert done.returncode == 0, done.stderr
    texts = [json.loads(each)["line"].encode() for each in exported.read_text().splitlines()]
    assert sorted(texts) == sorted([*map(line, range(LINES)), b"no line of anything"])


def test_postgres_groups_letters_by_reason_partition_and_file(platform: Platform) -> None:
    """Its answer to the grouping is streamed: a topic may have a group for each file and partition."""
    found = list(groups(engine(platform.settings), LetterFilter("logs")))
    assert sum(each.letters for each in found) == platform.drain().dead_lettered


def _done(platform: Platform, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    found = platform.sluice(*arguments)
    return found if found.returncode == 0 else None
