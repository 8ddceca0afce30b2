"""Flink SQL as a rival: its jars, the process that runs its jobs, and the forms in which it counts tasks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from sluice.runtime.jvm import java
from sluice.tasks import TaskSpec
from sluice.tasks.period import parse_period
from sluice_lab.bench.outcome import FOLDER

SOURCES = Path(__file__).parent / "flink_java"
LIB = FOLDER / "flink"
HEAP = "6g"  # as much as the Spark session of the other contenders has
#: The packages of the JDK that Flink's own scripts open.
OPENS = ("lang", "lang.reflect", "util", "util.concurrent", "net", "nio", "time", "io", "text")
CLUSTER = (
    "rest.address=127.0.0.1",
    "rest.bind-address=127.0.0.1",
    "rest.port=0",
    "taskmanager.memory.managed.size=2g",
    "taskmanager.memory.network.min=512m",
    "taskmanager.memory.network.max=512m",
    f"io.tmp.dirs={LIB / 'scratch'}",
)
#: Streams are grouped in two phases; the second gets what the first has gathered for up to two seconds.
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
SINK = "task INT, `start` BIGINT, n BIGINT, measured BIGINT, s DOUBLE, mi DOUBLE, ma DOUBLE, k STRING"


class FlinkFailed(RuntimeError):
    """Flink's process ended, or Maven could not resolve its jars."""


def jars() -> Path:
    """The folder of Flink's jars and of the classes of `SOURCES`, made on first use."""
    digest = sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))).hexdigest()
    stamp = LIB / ".stamp"
    if stamp.exists() and stamp.read_text() == digest:
        return LIB
    maven = ["mvn", "-B", "-ntp", "-q", "-Dstyle.color=never", f"-Dsluice.lib={LIB}", "-f", str(SOURCES)]
    if subprocess.run([*maven, "package"], stdin=subprocess.DEVNULL, check=False).returncode:
        raise FlinkFailed("Maven could not resolve Flink's jars (its messages stand above)")
    javac = ["javac", "-nowarn", "-d", str(LIB / "classes"), "-cp", f"{LIB}/*"]
    subprocess.run([*javac, *map(str, sorted(SOURCES.glob("*.java")))], check=True)
    stamp.write_text(digest)
    return LIB


class Rival:
    """The process that runs jobs over one log: a cluster of two slots in one JVM."""

    def __init__(self, process: subprocess.Popen[str], lines: Path) -> None:
        self._process, self._lines = process, lines

    def run(self, form: str, specs: Sequence[TaskSpec]) -> float:
        """Count the lines in a form of `FORMS`; returns the seconds that Flink took to plan the job."""
        *_, done = self._answer(form, specs, "blackhole")
        return float(done.split()[1])

    def rows(self, form: str, specs: Sequence[TaskSpec]) -> pa.Table:
        """The results of that form, as `contenders.ROWS`."""
        return rows(self._answer(form, specs, "print"))

    def _answer(self, form: str, specs: Sequence[TaskSpec], sink: str) -> Iterator[str]:
        """What the process writes until it is done with the job."""
        job = LIB / "job"
        job.write_text("\n".join(FORMS[form](self._lines, specs, sink)) + "\n")
        if self._process.stdin is None or self._process.stdout is None:
            raise FlinkFailed("the process was started without pipes")
        self._process.stdin.write(f"{job}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            yield line
            if line.startswith("done "):
                return
        raise FlinkFailed(f"Flink's process ended in {form}: see {LIB / 'log'}")


@contextmanager
def rival(lines: Path) -> Iterator[Rival]:
    """A process that counts these lines, for as long as the context lasts."""
    lib = jars()
    (lib / "scratch").mkdir(exist_ok=True)
    command = [
        java(),
        f"-Xmx{HEAP}",
        *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENS),
        *("-cp", f"{lib / 'classes'}:{lib}/*", "sluice.bench.Rival", *CLUSTER),
    ]
    with (lib / "log").open("w") as log, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:  # fmt: skip
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise FlinkFailed(f"Flink's process did not start: see {lib / 'log'}")
        yield Rival(process, lines)
        if process.stdin is not None:
            process.stdin.close()  # it ends when nothing more can come


def rows(printed: Iterable[str]) -> pa.Table:
    """What Flink printed (``2> +U[0, 1431856800000, 12, 12, 3.5, 0.5, 2.0, GET]``) as `contenders.ROWS`.

    In a stream a row is changed again and again; the last change counts.
    """
    last: dict[tuple[int, int, str], tuple[float | None, ...]] = {}
    for line in printed:
        _, change, row = line.rstrip("\n").partition("[") if "[" in line else ("", "", "")
        if not change:
            continue
        task, start, *figures, key = row.removesuffix("]").split(", ", 7)
        series = (int(task), int(start), key)
        if "-D" in line[:5]:
            del last[series]
        elif "+" in line[:5]:
            last[series] = tuple(None if figure == "null" else float(figure) for figure in figures)
    columns = list(zip(*last.values(), strict=True))
    return pa.table(
        {
            "task": [task for task, _, _ in last],
            "start": [start for _, start, _ in last],
            "key": [key for _, _, key in last],
            "lines": pa.array(columns[0]).cast(pa.int64()),
            "measured": pa.array(columns[1]).cast(pa.int64()),
            **dict(zip(("sum", "min", "max"), columns[2:], strict=True)),
        }
    )


# The forms: jobs as `flink_java/Rival.java` reads them.


def _job(mode: str, lines: Path, specs: Sequence[TaskSpec], sink: str) -> list[str]:
    """The beginning of every job: its mode, options and tasks, where lines come from and where results go."""
    options = MINI_BATCH if mode == "streaming" else {}
    return [
        mode,
        *(f"SET\t{name}\t{value}" for name, value in options.items()),
        *(f"TASK\t{_task(spec)}" for spec in specs),
        "FUNCTIONS",
        f"DO\tCREATE TABLE logs (line STRING) WITH "
        f"('connector' = 'filesystem', 'format' = 'parquet', 'path' = 'file://{lines}')",
        f"DO\tCREATE TABLE results ({SINK}) WITH ('connector' = '{sink}')",
    ]


def _task(spec: TaskSpec) -> str:
    condition = spec.where[0]
    dimensions = ",".join(str(d.extract.index) for d in spec.dimensions)
    values = ",".join(condition.filter.values or ())
    passes = (condition.extract.index, condition.filter.mode, values)
    return "\t".join(map(str, (*passes, dimensions, _measure(spec), _period(spec))))


def _explode(mode: str, lines: Path, specs: Sequence[TaskSpec], sink: str) -> list[str]:
    """A function cuts a line once and makes a row for each task that it passes; one GROUP BY."""
    return [
        *_job(mode, lines, specs, sink),
        "INSERT\tINSERT INTO results SELECT task, `start`, COUNT(*), COUNT(m), SUM(m), MIN(m), MAX(m), k "
        "FROM logs, LATERAL TABLE(explode(line)) AS t(task, `start`, k, m) GROUP BY task, `start`, k",
    ]


def _statements(mode: str, lines: Path, specs: Sequence[TaskSpec], sink: str) -> list[str]:
    """A statement a task in one set; all read the same view, whose function cuts a line once."""
    return [
        *_job(mode, lines, specs, sink),
        "VIEW\tfields\tSELECT f.* FROM logs, LATERAL TABLE(cut(line)) AS f",
        *(f"INSERT\t{_statement(number, spec)}" for number, spec in enumerate(specs)),
    ]


def _statement(number: int, spec: TaskSpec) -> str:
    condition, m = spec.where[0], f"m{_measure(spec)}"
    keys = [f"f{d.extract.index}" for d in spec.dimensions]
    key = keys[0] if len(keys) == 1 else f"CONCAT_WS('_', {', '.join(keys)})"
    word = "IN" if condition.filter.mode == "white" else "NOT IN"
    values = ", ".join(f"'{value}'" for value in condition.filter.values or ())
    return (
        f"INSERT INTO results SELECT {number}, `start`, COUNT(*), COUNT({m}), SUM({m}), MIN({m}), MAX({m}), "
        f"{key} FROM (SELECT ms - MOD(ms, {_period(spec)}) AS `start`, {', '.join(keys)}, {m} FROM fields "
        f"WHERE f{condition.extract.index} {word} ({values})) GROUP BY `start`, {', '.join(keys)}"
    )


def _measure(spec: TaskSpec) -> int:
    return (spec.measure.index or 0) if spec.measure else 0


def _period(spec: TaskSpec) -> int:
    return parse_period(spec.period) * 1000


def _form(
    make: Callable[[str, Path, Sequence[TaskSpec], str], list[str]], mode: str
) -> Callable[[Path, Sequence[TaskSpec], str], list[str]]:
    return lambda lines, specs, sink: make(mode, lines, specs, sink)


FORMS = {
    "explode": _form(_explode, "batch"),
    "explode, stream": _form(_explode, "streaming"),
    "statements": _form(_statements, "batch"),
    "statements, stream": _form(_statements, "streaming"),
}
