"""Lines of 1970 come to their day in another topic, by a replay that is killed and repeated."""

from __future__ import annotations

import datetime as dt
import json
import secrets
import signal
import subprocess
import sys
from collections import Counter

import pytest

from sluice.archive import index
from sluice.stack.environment import environment
from sluice.transmission.topics import Topics
from sluice_lab.waiting import until
from tests.e2e.half_of_a_file import send
from tests.e2e.running import COMMAND_SECONDS, Platform
from tests.e2e.test_lost_tail import at_rest

pytestmark = pytest.mark.e2e

#: When the lines happened; each says it in seconds, which the first topic takes for milliseconds.
AT = dt.datetime(2024, 6, 1, 10, tzinfo=dt.UTC)
WRONG_DAY = dt.date(1970, 1, 20)
LINES = 2_000
TOPIC = """
- name: {name}
  format: json
  time: {{extract: {{field: at}}, format: {form}}}
"""
TASK = """
- name: {name}_hits
  topic: {name}
  period: 1d
  dimensions: [{{name: n, extract: {{field: n}}}}]
  metrics: [count]
"""


def line(number: int) -> bytes:
    return json.dumps({"at": int(AT.timestamp()) + number, "n": f"n{number}"}).encode()


def test_lines_of_1970_are_of_their_day_in_both_layers(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = secrets.token_hex(4)
    wrong, right = f"seconds_{name}", f"right_{name}"
    with Topics(platform.settings) as topics:
        topics.create(wrong, partitions=2)
    for topic, form in ((wrong, "epoch_ms"), (right, "epoch_s")):
        for kind, text in (("topics", TOPIC), ("tasks", TASK)):
            done = platform.sluice(kind, "apply", "-f", "-", text=text.format(name=topic, form=form))
            assert done.returncode == 0, done.stderr
    send(platform.settings, wrong, map(line, range(LINES)))
    hops = at_rest(platform, wrong)
    assert (hops.online, hops.dead_lettered, hops.disagreements) == (LINES, 0, ()), hops
    assert set(index.positions(platform.settings, wrong)) == {0, 1}
    until(lambda: _lines(platform, f"{wrong}_hits", WRONG_DAY) == LINES, what="they are counted at 1970")
    refused = platform.sluice("topics", "apply", "-f", "-", text=TOPIC.format(name=wrong, form="epoch_s"))
    assert f"sluice topics replay {wrong} --into TOPIC" in refused.stderr
    replay = ("topics", "replay", wrong, "--into", right)
    looked = until(lambda: _done(platform, *replay, "--dry-run"), what="the right topic's task is counted")
    assert f"{LINES:,} of {LINES:,} lines of {wrong} would be sent to {right}" in looked.stdout
    assert "1970-01-20T" in looked.stdout
    assert "2024-06-01T10:00:" in looked.stdout
    monkeypatch.setenv("SLUICE_FAULT", "replay_sent")  # the lines of one partition are sent then
    killed = platform.sluice(*replay)
    assert killed.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}, killed.stderr
    monkeypatch.delenv("SLUICE_FAULT")
    command = [sys.executable, "-m", "sluice.cli.main", "--instance", platform.settings.instance, *replay]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [each.wait(COMMAND_SECONDS) for each in both] == [0, 0]
    hops = at_rest(platform, right)
    assert (hops.online, hops.dead_lettered, hops.disagreements) == (LINES, 0, ()), hops
    again = platform.sluice(*replay)
    assert f"0 of {LINES:,} lines of {wrong} were sent" in again.stdout, again
    night = [sys.executable, str(platform.settings.root / "jobs" / "nightly.py"), "--topic", right]
    subprocess.run(
        [*night, "--day", AT.date().isoformat(), "--run-id", "replayed"],
        env=environment(platform.settings), check=True, timeout=COMMAND_SECONDS,
    )  # fmt: skip
    wanted = Counter({(f"n{n}",): 1 for n in range(LINES)})
    for layer in ("online", "offline"):
        values = platform.counted(f"{right}_hits", AT.date(), layer).values
        assert Counter({series[1]: metrics["count"] for series, metrics in values.items()}) == wanted
    assert at_rest(platform, wrong).online == LINES  # there they stay where they are


def _lines(platform: Platform, task: str, day: dt.date) -> int:
    return sum(each["count"] for each in platform.counted(task, day, "online").values.values())


def _done(platform: Platform, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    found = platform.sluice(*arguments)
    return found if found.returncode == 0 else None
