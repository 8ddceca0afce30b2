"""Sluice's first tasks against the awk commands in include/tasks.yaml's comments."""

from __future__ import annotations

import random
import re
import subprocess
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.runtime.settings import ROOT
from sluice.tasks import parse_tasks
from tests.engine.samples import active, line, plan, records

FILE = ROOT / "include" / "tasks.yaml"
TASKS = parse_tasks(FILE.read_text())


def log() -> list[bytes]:
    rng = random.Random(1)  # noqa: S311
    start = datetime(2015, 5, 17, tzinfo=UTC)
    return [
        line(
            client=f"10.0.0.{rng.randrange(20)}",
            at=start + timedelta(seconds=37 * n),
            path=rng.choice(["/", "/a_b", "/a%20b", "/c?d=e"]),
            status=rng.choice(["200", "200", "304", "404"]),
            size=rng.choice(["-", "0", str(rng.randrange(10**9))]),
        )
        for n in range(3000)
    ]


def awk(program: str, lines: list[bytes]) -> dict[str, list[int]]:
    out = subprocess.run(["awk", program], input=b"\n".join(lines) + b"\n", capture_output=True, check=True)
    return {row.split()[0]: [int(v) for v in row.split()[1:]] for row in out.stdout.decode().splitlines()}


def by_series(task_id: int, lines: list[bytes]) -> dict[str, dict[str, float]]:
    """Each series' results, summed over all periods."""
    tasks = {(t.task_id, t.version): t for t in active(*TASKS)}
    found: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in results(merge(count(records(lines), plan(*TASKS)).partials), tasks).to_pylist():
        if row["task_id"] == task_id:
            series = row["key"].replace("%5F", "_").replace("%25", "%")
            found[series][row["metric"]] += row["value"]
    return {series: dict(values) for series, values in found.items()}


def commands() -> dict[str, str]:
    """The awk program above each task."""
    found = re.findall(r"^# awk '(.*)'\n- name: (\w+)", FILE.read_text(), re.MULTILINE)
    return {name: program for program, name in found}


@pytest.mark.parametrize("number", range(3))
def test_awk_prints_the_same_numbers(number: int) -> None:
    lines = log()
    task = TASKS[number]
    expected = awk(commands()[task.name], lines)
    found = by_series(number + 1, lines)
    assert found.keys() == expected.keys()
    for series, values in expected.items():
        got = found[series]
        assert [got["count"], *([got.get("sum", 0)] if "sum" in task.metrics else [])] == values


def test_lines_without_a_size_are_told_apart() -> None:
    lines = log()
    found = by_series(2, lines)
    assert sum(v["missing"] for v in found.values()) == sum(b" - " in each[-20:] for each in lines) > 0
