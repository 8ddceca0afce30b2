"""A team's metric that does not end, ends its process, or takes memory without end, harms no other.

Its code runs by `team_code` in a process of its own (`team_process`).
A machine that starts none harms no task.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sluice.engine.count import CountedLines, count
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.trial import failure
from sluice.metrics import Metric, registry, team_calls
from sluice.metrics.team import Team, load
from sluice.metrics.team_calls import PROCESSES, TeamProcessUnavailable
from sluice.metrics.team_metric import UserAccumulator, UserMetricFailed
from sluice.runtime.sections import Limits
from sluice.tasks.spec import ActiveTask, TaskSpec
from sluice.tasks.topic_spec import TopicSpec
from tests.metrics.states import numeric

pytestmark = pytest.mark.slow

SECONDS = 4.0
METRIC = """
import ctypes, os, signal, sys, time
import numpy as np
from sluice.metrics.user import UserMetric
{0}
class Faulty(UserMetric[float]):
    name = {1!r}
    def zero(self): return 0.0
    def add(self, state, values):
        {2}
        return state + float(values.sum())
    def merge(self, a, b):
        {3}
        return a + b
    def result(self, state):
        {4}
        return state
"""
SLEEPS, SPINS = "time.sleep(3600)", "while True: pass"
#: It holds the interpreter, so no thread of its process can end it.
HOLDS = "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')"
EXITS, CRASHES = "os._exit(3)", "ctypes.string_at(0)"
KILLED, CLOSES = "os.kill(os.getpid(), signal.SIGKILL)", "os.closerange(3, 100); time.sleep(3600)"
GROWS, EATS = "x = [bytearray(1 << 20) for _ in range(1 << 20)]", "np.zeros(1 << 40, np.uint8)"
#: What is said of each.
SAID = {
    SLEEPS: "it did not end within 4 s (metrics.seconds)",
    SPINS: "it did not end within 4 s (metrics.seconds)",
    HOLDS: "it did not end within 4 s (metrics.seconds)",
    EXITS: "it ended its process with exit code 3",
    CRASHES: "its process ended by SIGSEGV",
    KILLED: "its process ended by SIGKILL",
    CLOSES: "it closed the socket of its process",
    GROWS: "it took more than 128 MiB of memory (metrics.memory_bytes)",
    EATS: "it took more than 128 MiB of memory (metrics.memory_bytes)",
}
#: What ends no process, and is said of it.
MILD = {
    "sys.exit(4)": "SystemExit: 4",
    "raise KeyboardInterrupt": "KeyboardInterrupt: ",
    "raise GeneratorExit": "GeneratorExit: ",
    "return self": "Object of type Faulty is not JSON serializable",
    "return np.zeros(3)": "Object of type ndarray is not JSON serializable",
}
#: What a metric leaves in its process (`add` is called twice), and what of another one fails with it.
WARM = "import pyarrow; pyarrow.array([b'']); import threading"
LEFT = {
    "open files": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
        "open('/dev/null').close()",
    ),
    "memory": (
        "sys.__dict__.get('held') or setattr(sys, 'held', bytearray(60 << 20))",
        "bytearray(60 << 20)",
    ),
    "a folder": ("import tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)", "os.getcwd()"),
    "global state": ("sys.modules['this'] = None", "import fractions, sys; 'this' in sys.modules and 1 / 0"),
    "a thread": (f"threading.Timer(0.5, lambda: exec({HOLDS!r})).start()", "time.sleep(0.8)"),
}


@pytest.fixture(autouse=True)
def bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("sluice.metrics.team.KNOWN", tmp_path / "known")
    monkeypatch.setenv("SLUICE_METRICS__SECONDS", str(SECONDS))
    monkeypatch.setenv("SLUICE_METRICS__MEMORY_BYTES", str(128 << 20))
    PROCESSES.end()  # those that are idle have other bounds
    yield
    PROCESSES.end()


def source(name: str, *, head: str = "", add: str = "", merge: str = "", result: str = "") -> str:
    return METRIC.format(head, name, add or "pass", merge or "pass", result or "pass")


def team(**files: str) -> Team:
    return load({f"{name}.py": text for name, text in files.items()}, lambda _: False)


def one(**faults: str) -> Metric:
    found = team(faulty=source("faulty", **faults))
    assert not found.problems
    return found.metrics["faulty"]


def summed(metric: Metric) -> list[float]:
    (accumulator,) = metric.accumulators
    return metric.results(accumulator.add(numeric([0, 0, 1], [1.0, 2.0, 4.0], 2))).values.tolist()


@pytest.mark.parametrize(
    "fault",
    [SLEEPS, HOLDS, EXITS, CRASHES, GROWS]
    + [pytest.param(fault, marks=pytest.mark.long) for fault in (SPINS, KILLED, CLOSES, EATS)],
)
def test_a_metric_fails_in_bounded_time_and_the_next_one_goes_on(fault: str) -> None:
    """Also with what the other one needs: the process, and its memory, are new ones."""
    metrics = team(faulty=source("faulty", add=fault), sound=source("sound")).metrics
    assert summed(metrics["sound"]) == [3.0, 4.0]
    began = time.monotonic()
    with pytest.raises(UserMetricFailed) as failed:
        summed(metrics["faulty"])
    assert str(failed.value).startswith("metric 'faulty' of faulty.py failed in add: ")
    assert SAID[fault] in str(failed.value)
    assert time.monotonic() - began < 20 * SECONDS
    assert summed(metrics["sound"]) == [3.0, 4.0]


def test_whatever_it_raises_or_returns_is_said_and_the_next_one_goes_on() -> None:
    sound = team(sound=source("sound")).metrics["sound"]
    for number, (fault, said) in enumerate(MILD.items()):
        name = f"mild{number}"
        metric = team(**{name: source(name, add=fault)}).metrics[name]
        with pytest.raises(UserMetricFailed, match=f"failed in add: .*{re.escape(said)}"):
            summed(metric)
        assert summed(sound) == [3.0, 4.0]


@pytest.mark.parametrize(("left", "fails"), LEFT.values(), ids=LEFT)
def test_what_another_metric_left_in_a_process_fails_no_metric(left: str, fails: str) -> None:
    metrics = team(
        leaving=source("leaving", head=WARM, add=left), faultless=source("faultless", add=fails)
    ).metrics
    assert summed(metrics["leaving"]) == [3.0, 4.0]
    (used,) = PROCESSES._idle
    assert summed(metrics["faultless"]) == [3.0, 4.0]
    assert PROCESSES._idle != [used]


def test_a_process_without_faults_is_kept() -> None:
    metrics = team(sound=source("sound"), other=source("other")).metrics
    (used,) = PROCESSES._idle
    for name in ("sound", "other", "sound"):
        assert summed(metrics[name]) == [3.0, 4.0]
    assert PROCESSES._idle == [used]


def test_a_process_that_takes_nothing_is_replaced_in_time() -> None:
    metric = one()
    (stopped,) = PROCESSES._idle
    os.kill(stopped._process.pid, signal.SIGSTOP)
    began, size = time.monotonic(), 200_000  # more than the socket holds
    (accumulator,) = metric.accumulators
    states = accumulator.add(numeric(np.zeros(size, int), np.ones(size), 1))
    assert metric.results(states).values.tolist() == [size]
    assert time.monotonic() - began < 10 * SECONDS
    assert stopped._process.returncode == -signal.SIGKILL


def test_what_has_no_room_says_how_large_it_is() -> None:
    size = 17 << 20
    values = pa.LargeListArray.from_arrays(pa.array([0, size], pa.int64()), pa.array(np.ones(size)))
    (accumulator,) = one().accumulators
    assert isinstance(accumulator, UserAccumulator)
    said = re.escape("what it was asked, 136 MiB, does not fit into 128 MiB of memory (metrics.memory_bytes)")
    with pytest.raises(UserMetricFailed, match=f"failed in add: {said}"):
        accumulator._ask("add", values)


def test_an_answer_that_has_no_room_says_so() -> None:
    size = 3000
    with pytest.raises(UserMetricFailed, match="it took more than 128 MiB of memory") as failed:
        one(add="return 'x' * 65_000").accumulators[0].add(numeric(np.arange(size), np.ones(size), size))
    assert "exit code" not in str(failed.value)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start is given up soon."""
    for name, seconds in (("START_PATIENCE", 2.0), ("FIRST_PAUSE", 0.1), ("LONGEST_PAUSE", 0.2)):
        monkeypatch.setattr(team_calls, name, seconds)


@contextmanager
def no_open_files() -> Iterator[None]:
    """This process can open none."""
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def test_a_machine_that_starts_no_process_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    metric = one()
    PROCESSES.end()
    with ThreadPoolExecutor(1) as pool, no_open_files():
        found = pool.submit(summed, metric)
        while "Too many open files" not in caplog.text:
            assert not found.done()
            time.sleep(0.05)
    assert found.result() == [3.0, 4.0]


@pytest.mark.usefixtures("impatient")
def test_a_machine_that_starts_no_process_fails_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with counting_with(monkeypatch, source("faulty")) as (tasks, lines):
        assert counted(tasks, lines).failed == {}  # it has opened what else it needs
        PROCESSES.end()
        with no_open_files(), pytest.raises(TeamProcessUnavailable, match="Too many open files"):
            counted(tasks, lines)
        assert counted(tasks, lines).failed == {}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("what", "fault", "said"),
    [
        ("START_SECONDS", 0.01, "it was not ready after 0.01 s"),
        ("sys.executable", "/bin/false", "it ended its process with exit code 1"),
    ],
)
def test_a_process_that_does_not_become_ready_fails_no_task(
    monkeypatch: pytest.MonkeyPatch, what: str, fault: object, said: str
) -> None:
    with counting_with(monkeypatch, source("faulty")) as (tasks, lines):
        PROCESSES.end()
        with monkeypatch.context() as patch:
            patch.setattr(f"sluice.metrics.team_calls.{what}", fault)
            with pytest.raises(TeamProcessUnavailable, match=said):
                counted(tasks, lines)
        assert counted(tasks, lines).failed == {}


@pytest.mark.parametrize("where", ["merge", "result"])
def test_wherever_it_hangs(where: str) -> None:
    metric = one(**{where: "while " + ("a + b" if where == "merge" else "True") + ": pass"})
    (accumulator,) = metric.accumulators
    states = accumulator.add(numeric([0, 1], [1.0, 2.0], 2))
    with pytest.raises(UserMetricFailed, match=f"failed in {where}: it did not end within 4 s"):
        metric.results(accumulator.merge(states, numeric([0, 0], [0.0, 0.0], 1).groups, 1))


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (SLEEPS, "failed in load: it did not end within 4 s"),
        (EXITS, "failed in load: it ended its process with exit code 3"),
        (GROWS, "failed in load: it took more than 128 MiB"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_left_out(head: str, says: str) -> None:
    found = team(faulty=source("faulty", head=head), sound=source("sound"))
    assert list(found.metrics) == ["sound"]
    assert says in found.problems["faulty.py"]
    began = time.monotonic()  # the next program need not wait again
    assert says in team(faulty=source("faulty", head=head)).problems["faulty.py"]
    assert time.monotonic() - began < SECONDS / 2


def test_no_process_runs_for_files_that_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = source("sound")
    known = team(sound=text)
    monkeypatch.setattr(PROCESSES, "ask", None)
    assert list(team(sound=text).metrics) == ["sound"]
    folder = known.write(tmp_path)
    (tmp_path / "known").rename(tmp_path / "gone")
    monkeypatch.setenv("SLUICE_METRICS__PATH", str(folder))  # as Spark's workers have it
    assert list(team(sound=text).metrics) == ["sound"]


def test_a_process_that_was_killed_is_replaced(tmp_path: Path) -> None:
    """Only what fails twice is the metric's fault."""
    once = f"p = {str(tmp_path / 'once')!r}; os.path.exists(p) or (open(p, 'w'), os.kill(os.getpid(), 9))"
    assert summed(one(add=once)) == [3.0, 4.0]


def test_a_stop_of_both_processes_is_no_time_of_the_metric() -> None:
    """As when a machine is suspended: the process that asks is stopped, too."""
    metric = one(add="time.sleep(0.5)")
    reader, writer = os.pipe()
    if (asking := os.fork()) == 0:
        done = b"failed"
        try:
            (accumulator,) = metric.accumulators
            os.write(writer, b"begun")
            accumulator.add(numeric([0], [1.0], 1))
            done = b"done"
        finally:
            os.write(writer, done)
            os._exit(0)
    assert os.read(reader, 5) == b"begun"
    time.sleep(0.2)
    os.kill(asking, signal.SIGSTOP)
    time.sleep(1.3 * SECONDS)
    os.kill(asking, signal.SIGCONT)
    assert os.read(reader, 6) == b"done"
    os.waitpid(asking, 0)


def test_threads_do_not_wait_for_a_metric_that_hangs() -> None:
    metrics = team(faulty=source("faulty", add=SLEEPS), sound=source("sound")).metrics
    failed = list[UserMetricFailed]()

    def hang() -> None:
        try:
            summed(metrics["faulty"])
        except UserMetricFailed as error:
            failed.append(error)

    waiting = threading.Thread(target=hang)
    waiting.start()
    for _ in range(3):
        assert summed(metrics["sound"]) == [3.0, 4.0]
    waiting.join()
    assert len(failed) == 1


def test_its_measures_are_its_own() -> None:
    assert summed(one(add="values.sort(); values[:] += 0")) == [3.0, 4.0]


def test_only_its_own_task_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pass of either layer, and when a task is tried before it is saved."""
    text = source("faulty", add="values.max() < 500 or time.sleep(3600)")
    with counting_with(monkeypatch, text) as (tasks, lines):
        topic = TopicSpec(name="logs")
        assert failure(tasks[0].spec, topic, lines[:3], Limits()) is None
        said = failure(tasks[0].spec, topic, lines, Limits())
        late = "it did not end within 4 s (metrics.seconds)"
        assert said == f"UserMetricFailed: metric 'faulty' of faulty.py failed in add: {late}"
        found = counted(tasks, lines)
        assert found.failed == {(1, 1): said}
        assert set(found.partials.column("task_id").to_pylist()) == {2}


@contextmanager
def counting_with(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> Iterator[tuple[list[ActiveTask], list[bytes]]]:
    """Two tasks, of which the first one has the metric `faulty` of this file, and lines for them."""

    def task(number: int, *metrics: str) -> ActiveTask:
        spec = {"name": f"t{number}", "topic": "logs", "period": "60s", "measure": {"field": "bytes"}}
        return ActiveTask(number, 1, TaskSpec.model_validate({**spec, "dimensions": [], "metrics": metrics}))

    with monkeypatch.context() as patch:
        patch.setitem(registry.team().metrics, "faulty", team(faulty=text).metrics["faulty"])
        _forget()
        try:
            yield (
                [task(1, "count", "faulty"), task(2, "count", "sum")],
                [
                    f'h - - [17/May/2015:10:05:0{n} +0000] "GET / HTTP/1.1" 200 {n * 100}'.encode()
                    for n in range(9)
                ],
            )
        finally:
            patch.undo()
            _forget()


def counted(tasks: list[ActiveTask], lines: list[bytes]) -> CountedLines:
    batch = pa.record_batch(
        {
            "partition": pa.array(np.zeros(len(lines), np.int32)),
            "offset": pa.array(np.arange(len(lines))),
            "line": pa.array(lines, pa.binary()),
        }
    )
    return count(batch, EnginePlan.of(tasks, Limits(), TopicSpec(name="logs")))


def _forget() -> None:
    """Let the process see other metrics than it began with."""
    for known in (registry.metric, registry.all_accumulators, registry.accumulator_columns, partials_schema):
        known.cache_clear()
