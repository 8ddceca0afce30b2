"""What it costs that the stores write to disk before they answer (the setting `sync_writes`)."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.runtime.settings import Settings
from sluice.stack import supervisord
from sluice_lab.bench import stack
from sluice_lab.bench.end_to_end import OVERLOAD_RATE, QUICK, TASKS, Times, overload, tasks_applied
from sluice_lab.bench.outcome import Bar, Outcome, Table
from sluice_lab.bench.pressure import writing

NAME = "syncs"
VARIABLE = "SLUICE_SYNC_WRITES"
ROUNDS = 3
WARM_SECONDS = 5.0  # until the JVMs have compiled what they need
#: Safe writes are on by default because they keep this share of the throughput.
SHARE = 0.9
WHAT = """\
The whole platform as instance `{instance}`, {tasks} tasks active, brought up anew with `sync_writes` and
without it in turn, {rounds} times each. {rate:,.0f} lines a second are written for {seconds:.0f} s, then none
until all are counted; the throughput is all of them over all that time, the median of the rounds."""


def run(quick: bool = False) -> Outcome:
    if supervisord.running(Settings(instance=stack.INSTANCE)):
        raise ValueError(f"instance {stack.INSTANCE} runs: stop it, because this brings it up anew")
    rounds, times = (1, QUICK) if quick else (ROUNDS, Times())
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        for synced in (True, False) if number % 2 else (False, True):
            found[synced].append(throughput(synced, times.overload))
    with_syncs, without = (statistics.median(found[synced]) for synced in (True, False))
    what = WHAT.format(
        instance=stack.INSTANCE, tasks=TASKS, rounds=rounds, rate=OVERLOAD_RATE, seconds=times.overload
    )
    columns = ["sync_writes", *(f"round {number + 1}, lines/s" for number in range(rounds))]
    table = Table("Throughput", columns, [[str(synced).lower(), *rates] for synced, rates in found.items()])
    bars = [Bar("throughput with synced writes over that without", with_syncs / without, SHARE)]
    return Outcome(NAME, what, bars, [table], quick=quick)


def throughput(synced: bool, seconds: float) -> float:
    """Lines counted a second under overload."""
    with (
        _told(VARIABLE, str(synced).lower()),
        _told("SLUICE_INSTANCE", stack.INSTANCE),
        stack.running() as settings,
        tasks_applied(settings),
        writing(settings) as (writer, watch),
    ):
        overload(writer, watch, WARM_SECONDS)
        return overload(writer, watch, seconds)[0]


@contextmanager
def _told(variable: str, value: str) -> Iterator[None]:
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        os.environ.pop(variable)
        if before is not None:
            os.environ[variable] = before
