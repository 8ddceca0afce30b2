"""Where the time of the counting pass goes, step by step."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.engine.batches import PASS_LINES
from sluice.engine.count import count
from sluice.engine.plan import EnginePlan
from sluice.runtime.sections import Limits
from sluice_lab.bench import workload
from sluice_lab.bench.outcome import Bar, Cell, Flame, Outcome, Table
from sluice_lab.bench.recorder import Recorder, Stacks, by_stage

NAME = "pass_time"
NUMBERS = (1, 16, 64)
DRAWN = 64
ROUNDS = 5
#: A stack belongs to the innermost of these functions.
STAGES = {
    "parse.event_time": "times",
    "parse.dead_reason": "times",
    "extract.text": "UTF-8",
    "cut.__init__": "cut and codes",
    "cut.column": "cut and codes",
    "count._mark_long": "values",
    "count._passes": "values",
    "extract.numbers": "values",
    "count._group": "groups",
    "count._keys": "keys",
    "aggregation.aggregate": "accumulators",
}
REST = "rest"
ORDER = ("times", "UTF-8", "cut and codes", "values", "groups", "keys", "accumulators", REST)
#: A task more must cost at most this share of the first one, or the tasks do not share the pass.
SHARED_LIMIT = 0.15

WHAT = """\
One batch of {lines:,} lines through the pass, without Spark, on one core, in nanoseconds of a core a line:
the fastest of {rounds} passes, shared out among the steps as one recorded pass spent it. `times` reads the
stamps, `UTF-8` checks the bytes, `cut and codes` cuts fields straight into dictionaries, `values` filters,
measures and limits distinct values, `groups` selects the lines of each task and numbers their groups, `keys`
writes the series' names, `accumulators` counts, sums and compares. The flame graph shows {drawn} tasks."""


def run(quick: bool = False) -> Outcome:
    batch = _batch(PASS_LINES // 8 if quick else PASS_LINES)
    fastest, stacks = {}, {}
    for number in NUMBERS:
        plan = EnginePlan.of(workload.active(workload.tasks(number)), Limits())
        count(batch, plan)
        fastest[number] = min(_seconds(batch, plan) for _ in range(ROUNDS))
        with Recorder() as recorder:
            count(batch, plan)
        stacks[number] = recorder.stacks
    return outcome(fastest, stacks, len(batch), quick)


def _batch(lines: int) -> pa.RecordBatch:
    log = workload.log(2_000_000, 600)
    table = pq.read_table(log / "part-0.parquet", partitioning=None, columns=["line"])
    line = table.column("line").slice(0, lines).combine_chunks().cast(pa.binary())
    numbers = np.arange(len(line))
    return pa.record_batch(
        {
            "partition": pa.array(np.zeros(len(line), np.int32)),
            "offset": pa.array(numbers),
            "line": line.chunk(0) if isinstance(line, pa.ChunkedArray) else line,
        }
    )


def _seconds(batch: pa.RecordBatch, plan: EnginePlan) -> float:
    begin = time.process_time()
    count(batch, plan)
    return time.process_time() - begin


def outcome(fastest: Mapping[int, float], stacks: Mapping[int, Stacks], lines: int, quick: bool) -> Outcome:
    """Make the table and the flame graph of recorded passes."""
    rows: list[list[Cell]] = []
    for number, seconds in fastest.items():
        stages = by_stage(stacks[number], STAGES, REST)
        scale = seconds / sum(stages.values()) / lines * 1e9
        rows.append([str(number), *(stages[name] * scale for name in ORDER), seconds / lines * 1e9])
    first, last = min(fastest), max(fastest)
    added = (fastest[last] - fastest[first]) / (last - first) / fastest[first]
    bar = Bar(f"a task more, up to {last}, over the first one", added, SHARED_LIMIT, "most")
    table = Table("Nanoseconds of a core a line", ["tasks", *ORDER, "all"], rows)
    flame = Flame(f"The pass with {DRAWN} tasks", stacks[DRAWN])
    what = WHAT.format(lines=lines, rounds=ROUNDS, drawn=DRAWN)
    return Outcome(NAME, what, [bar], [table], quick=quick, flames=(flame,))
