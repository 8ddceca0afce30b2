"""What the first tasks must have counted: computed by DuckDB over the front-ends' files, in SQL of its own.

Lines that a power cut took from Kafka before a layer had them are left out: those that the byte ledger lacks,
which `sluice audit` names.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sluice.quality.file_accounts import NOTHING, front_end_files, line_spans
from sluice.results.layer_results import ResultLayer, ResultValue, Series, each_result, layer_results
from sluice.results.layers import find
from sluice.runtime import days
from sluice.runtime.arrays import Ints
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import topic_totals
from sluice_lab.chaos.front_ends import HOSTS, log_file
from sluice_lab.chaos.stores import TOPIC

Counted = Mapping[Series, Mapping[str, ResultValue]]

DAY_MS = 24 * 3_600_000
#: The lines as columns. No line has a control character, so each line is one value.
LINES = """
CREATE TABLE lines AS
SELECT epoch_ms(strptime(field[4][2:], '%d/%b/%Y:%H:%M:%S')) AS ms, field[1] AS client, field[7] AS path,
  field[9] AS status, CASE WHEN field[10] <> '-' THEN CAST(field[10] AS BIGINT) END AS size
FROM (
  SELECT string_split(line, ' ') AS field
  FROM read_csv(?, columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '', escape = '')
)
"""
#: Of each task of include/tasks.yaml: the start of the period, the dimension, and the metrics.
TASKS = {
    "hits_by_status": "SELECT ms - ms % 60000, status, count(*) AS count FROM lines GROUP BY 1, 2",
    "hits_by_client": (
        "SELECT ms - ms % 300000, client, count(*) AS count FROM lines WHERE status <> '304' GROUP BY 1, 2"
    ),
    "bytes_by_path": (
        "SELECT ms - ms % 3600000, path, count(*) AS count, count(*) - count(size) AS missing, "
        "CAST(sum(size) AS BIGINT) AS sum, CAST(sum(size) AS DOUBLE) / nullif(count(size), 0) AS avg, "
        "min(size) AS min, max(size) AS max FROM lines GROUP BY 1, 2"
    ),
}


@dataclass(frozen=True)
class TaskVerdict:
    """One task in one layer against DuckDB: lines too few, lines too many, and results that differ."""

    task: str
    layer: str
    results: int
    lost: int
    doubled: int
    differing: int
    examples: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return not (self.lost or self.doubled or self.differing)


def wanted(files: Sequence[Path]) -> dict[str, Counted]:
    """What each task counts of these files' lines, which all parse."""
    import duckdb

    with duckdb.connect() as database:
        database.execute(LINES, [[str(path) for path in files]])
        return {task: _by_series(database.execute(select)) for task, select in TASKS.items()}


def verdict(task: str, layer: str, right: Counted, found: Counted) -> TaskVerdict:
    """Compare a layer's results with the right ones. Lines are lost and doubled by the metric `count`."""
    lost = doubled = 0
    differing = []
    for series in sorted({*right, *found}):
        ours, theirs = right.get(series, {}), found.get(series, {})
        more = _count(theirs) - _count(ours)
        lost, doubled = lost + max(0, -more), doubled + max(0, more)
        if ours != theirs:
            differing.append(f"{series}: {dict(theirs)} instead of {dict(ours)}")
    return TaskVerdict(task, layer, len(right), lost, doubled, len(differing), tuple(differing[:3]))


def stored(settings: Settings, task: str, layer: ResultLayer, of_days: Sequence[dt.date]) -> Counted:
    """What a layer stored of the task's periods of these days, which follow one another."""
    first = int(dt.datetime.combine(min(of_days), dt.time(), dt.UTC).timestamp() * 1000)
    starts = range(first, first + DAY_MS * len(of_days))
    found: dict[Series, dict[str, ResultValue]] = {}
    for each in each_result(layer_results(settings, find(settings, task), layer, starts)):
        found.setdefault(each.series, {})[each.key.metric] = each.value
    return found


def books(settings: Settings) -> topic_totals.TopicTotals:
    """What the platform itself says of the topic."""
    with engine(settings).connect() as connection:
        return topic_totals.read(connection, TOPIC, days.today())


def missing_lines(settings: Settings, files: Iterable[Path]) -> dict[Path, Ints]:
    """By file, where each line begins that the byte ledger lacks; only files with such lines."""
    ledger = books(settings).ledger
    wanted, found = {path.resolve() for path in files}, {}
    for key, path in front_end_files(settings, TOPIC):
        if isinstance(path, Path) and path.resolve() in wanted:
            starts, ends = ledger.get(key, (NOTHING, NOTHING))
            begins = [begin[~_within(begin, starts, ends)] for begin, _ in line_spans(path)]
            lacking = np.concatenate([NOTHING, *begins])
            if len(lacking):
                found[path.resolve()] = lacking
    return found


def without(path: Path, begins: Ints, folder: Path) -> Path:
    """A copy of the file without the lines that begin there."""
    copy, lacking = folder / f"{path.parent.name}.{path.name}", {int(begin) for begin in begins}
    offset = 0
    with path.open("rb") as lines, copy.open("wb") as out:
        for line in lines:
            if offset not in lacking:
                out.write(line)
            offset += len(line)
    return copy


def hold(
    settings: Settings, of_days: Sequence[dt.date], taken: Mapping[Path, Ints], layers: Iterable[ResultLayer]
) -> list[TaskVerdict]:
    """Hold each task's results of each layer against the files of these days.

    taken: lines that only may lack, by file.
    """
    files = [
        path for host in HOSTS for day in of_days if (path := log_file(settings.home, host, day)).exists()
    ]
    with tempfile.TemporaryDirectory() as folder:
        left = [
            without(path, taken[path.resolve()], Path(folder)) if path.resolve() in taken else path
            for path in files
        ]
        right = wanted(left)
    return [
        verdict(task, layer, right[task], stored(settings, task, layer, of_days))
        for layer in layers
        for task in TASKS
    ]


def _within(begin: Ints, starts: Ints, ends: Ints) -> Any:
    if not len(starts):
        return np.zeros(len(begin), bool)
    before = np.searchsorted(starts, begin, side="right") - 1
    return (before >= 0) & (begin < np.take(ends, before, mode="clip"))


def _by_series(rows: Any) -> dict[Series, dict[str, ResultValue]]:
    names = [column[0] for column in rows.description][2:]
    return {
        (int(period), (dimension,)): {
            name: value for name, value in zip(names, values, strict=True) if value is not None
        }
        for period, dimension, *values in rows.fetchall()
    }


def _count(metrics: Mapping[str, ResultValue]) -> int:
    count = metrics.get("count", 0)
    return int(count) if isinstance(count, int | float) else 0
