"""Sluice's first tasks against the awk commands in include/tasks.yaml's comments."""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from sluice.engine.access_log import fields
from sluice.engine.count import count
from sluice.engine.cut import COMPILED_LINES
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.runtime.settings import ROOT
from sluice.tasks import parse_tasks
from sluice.tasks.first_tasks import advice, cut_at_blanks
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from tests.engine.samples import active, line, plan, records
from tests.tasks.database import sqlite

FILE = ROOT / "include" / "tasks.yaml"
TASKS = parse_tasks(FILE.read_text())

RDP = (
    r"\xe0\x00 \x00Cookie: mstshash=a"  # of these bytes to a plain port the format makes a method and a path
)
AT = "[17/May/2015:10:05:03 +0000]"
#: Lines that servers really write, with their status, path and bytes (None: the line has none).
ODD: list[tuple[str, str, str | None, int | None]] = [
    (f'h - - {AT} "GET / HTTP/1.1" 200 5 "-" "x"', "200", "/", 5),
    (f'h - - {AT} "-" 408 0 "-" "-"', "408", None, 0),
    (rf'h - - {AT} "\x16\x03\x01\x02" 400 226 "-" "-"', "400", None, 226),
    (rf'h - - {AT} "\x03 \xe0\x00 \x00Cookie: mstshash=a" 400 2 "-" "-"', "400", RDP, 2),
    (f'h - - {AT} "GET /two words HTTP/1.1" 404 5 "-" "x"', "404", "/two words", 5),
    (f'h - - {AT} "GET /a HTTP/1.1 b HTTP/1.1" 404 5 "-" "x"', "404", "/a HTTP/1.1 b", 5),
    (f'h - john doe {AT} "GET /a HTTP/1.1" 401 5 "-" "x"', "401", "/a", 5),
    (f'h - j  d e {AT} "GET /a HTTP/1.1" 401 - "-" "x"', "401", "/a", None),
    (f'h - - {AT} "GET /old" 200 5', "200", "/old", 5),
    (f'h - - {AT} "GET /old" 200 -', "200", "/old", None),
    (rf'h - - {AT} "GET /q?a=\"b c\" HTTP/1.1" 301 7 "-" "x \"y\""', "301", r"/q?a=\"b c\"", 7),
    (rf'h - - {AT} "GET /200 500\\ HTTP/1.1" 302 7 "http://r/ 404 9" "x"', "302", "/200 500\\\\", 7),
    (f'h - - {AT} "" 400 0 "-" "-"', "400", None, 0),
    (f'h - - {AT} "CONNECT  HTTP/1.0" 405 1 "-" "-"', "405", None, 1),
]


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


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, COMPILED_LINES])
def test_odd_requests_and_users_count_under_their_own_values(copies: int) -> None:
    """As awk's words one in six would be right; `copies`: by the expressions, and by the kernel."""
    lines = [text.encode() for text, *_ in ODD] * copies
    by_status = by_series(1, lines)
    expected: Counter[str] = Counter(status for _, status, _, _ in ODD)
    assert {status: found["count"] for status, found in by_status.items()} == {
        status: n * copies for status, n in expected.items()
    }
    by_path = by_series(2, lines)
    assert by_path.keys() == {path for _, _, path, _ in ODD if path is not None}
    for path, found in by_path.items():
        sizes = [size for _, _, own, size in ODD if own == path]
        assert found["count"] == len(sizes) * copies
        assert found["missing"] == sizes.count(None) * copies
        assert found.get("sum", 0) == sum(size or 0 for size in sizes) * copies
    assert by_series(3, lines) == {"h": {"count": len(lines)}}


def test_sql_over_the_lines_says_the_same() -> None:
    found = fields(pa.array([text.encode() for text, *_ in ODD], pa.binary()))
    assert found["status"].to_pylist() == [int(status) for _, status, _, _ in ODD]
    paths = [path if path is None else path.decode() for path in found["path"].to_pylist()]
    assert paths == [path for _, _, path, _ in ODD]
    assert found["bytes"].to_pylist() == [size for *_, size in ODD]


def test_no_first_task_and_no_example_cuts_at_a_delimiter() -> None:
    for file in (FILE, FILE.parent / "examples" / "tasks.yaml"):
        for task in parse_tasks(file.read_text()):
            extracts = [each.extract for each in (*task.dimensions, *task.where)]
            extracts += [task.measure.extract] if task.measure else []
            assert all(extract.field is not None for extract in extracts), task.name


OLD = """
- {name: hits_by_status, topic: logs, period: 1m, metrics: [count],
   dimensions: [{name: status, extract: {delimiter: " ", index: 8}}]}
- {name: hits_by_client, topic: logs, period: 5m, metrics: [count],
   where: [{extract: {delimiter: " ", index: 8}, filter: {mode: black, values: ["304"]}}],
   dimensions: [{name: client, extract: {field: client}}]}
- {name: mine, topic: logs, period: 1m, metrics: [count],
   dimensions: [{name: word, extract: {delimiter: " ", index: 8}}]}
"""


def test_an_upgrade_names_the_first_tasks_that_still_cut_at_blanks_and_the_command() -> None:
    database = sqlite()
    tasks, topics = TaskStore(database), TopicStore(database)
    tasks.apply(parse_tasks(OLD), "sluice")
    names = cut_at_blanks(tasks, topics, ROOT)
    assert names == ["hits_by_client", "hits_by_status"]
    command = "sluice tasks apply -f include/tasks.yaml hits_by_client hits_by_status"
    assert advice(names).endswith(command)
    assert "\n" not in advice(names)
    tasks.apply([spec for spec in TASKS if spec.name in names], "ann")
    assert cut_at_blanks(tasks, topics, ROOT) == []


def test_lines_without_a_size_are_told_apart() -> None:
    lines = log()
    found = by_series(2, lines)
    assert sum(v["missing"] for v in found.values()) == sum(b" - " in each[-20:] for each in lines) > 0
