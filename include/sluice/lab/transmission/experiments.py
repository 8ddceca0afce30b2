"""The experiments that docs/transmission.md reports; docs/transmission keeps their rows as JSON.

computed: every assignor on every scenario, asked without a broker. live: the phases of runs on live brokers.
samples: rates and CPU over time in paper 003's scenario. stood: how long each partition stood still.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from sluice.assignment.observed import Observed
from sluice.lab.kept import keep, kept
from sluice.lab.transmission import computed, measures
from sluice.lab.transmission.asked import Asked
from sluice.lab.transmission.brokers import Brokers
from sluice.lab.transmission.members import Consumer, Producer
from sluice.lab.transmission.rivals import ALL
from sluice.lab.transmission.run import Laboratory, Log, Times
from sluice.lab.transmission.scenarios import SCENARIOS, Scenario
from sluice.lab.trials import Row
from sluice.runtime.settings import ROOT

FOLDER = ROOT / "docs" / "transmission"
NAMES = ("computed", "live", "samples", "stood")
LIVE = ("paper", "skew", "slow", "both", "frozen")
RUNS = 3
#: Beside its steps, a run takes about this long: consumers leave, and the next ones start to fetch.
BETWEEN_SECONDS = 2.0
#: Paper 003's minute takes 24 s: C0 leaves after 8 s and comes back after 16.
TIMES = Times(settle=8.0, gap=8.0)
SAMPLE_SECONDS = 2.0
QUICK = Times(settle=4.0, gap=4.0)
#: A dropped member is noticed after the session's timeout.
FROZEN = Times(settle=8.0, gap=10.0)
#: Bytes a second of an ordinary partition, and of an ordinary member.
ARRIVES, PROCESSED = 0.3e6, 2.4e6
_READY_SECONDS = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is measured on live brokers."""

    scenarios: Sequence[str] = LIVE
    contenders: Sequence[str] = ALL
    runs: int = RUNS
    times: Times = TIMES


@dataclass
class Found:
    """The rows of live runs, by experiment."""

    live: list[Row]
    samples: list[Row]
    stood: list[Row]

    def add(self, log: Log, number: int) -> None:
        self.live += measures.rows(log, number)
        self.stood += measures.stood(log, number)
        if log.scenario.name == "paper":
            self.samples += measures.samples(log, number, SAMPLE_SECONDS)


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def minutes(plan: Plan) -> float:
    """About how long the plan takes on live brokers."""
    runs = len(plan.contenders) * plan.runs
    seconds = 0.0
    for name in plan.scenarios:
        times = FROZEN if name == "frozen" else plan.times
        seconds += runs * (times.settle + times.gap * len(SCENARIOS[name].steps) + BETWEEN_SECONDS)
    return seconds / 60


def compute(folder: Path = FOLDER) -> None:
    """Ask every assignor, and keep the rows."""
    keep("computed", list(computed.rows()), folder)


def measure(plan: Plan, folder: Path = FOLDER, say: Say = _to_stderr) -> None:
    """Run the plan on live brokers, and keep the rows; those of other scenarios stay.

    Contenders take turns, and each run begins with another one. What the machine does meanwhile hits all
    alike.
    """
    found = live(plan, say)
    for name in ("live", "samples", "stood"):
        if rows := getattr(found, name):
            before = kept(name, folder) if (folder / f"{name}.json").exists() else []
            others = [row for row in before if row["scenario"] not in plan.scenarios]
            keep(name, [*others, *rows], folder)


def live(plan: Plan, say: Say = _to_stderr) -> Found:
    """The rows of the plan's runs."""
    found = Found([], [], [])
    scenarios = [SCENARIOS[name] for name in plan.scenarios]
    with ExitStack() as stack:
        brokers = stack.enter_context(Brokers())
        for topics in {tuple(scenario.partitions.items()) for scenario in scenarios}:
            brokers.make(dict(topics))
        consumers: dict[str, Consumer] = {}
        for name in sorted({name for scenario in scenarios for name in scenario.topics}):
            consumers[name] = Consumer(name)
            stack.callback(consumers[name].stop)
        if not all(consumer.ready(_READY_SECONDS) for consumer in consumers.values()):
            raise RuntimeError(f"the consumers did not start within {_READY_SECONDS:.0f} s")
        for scenario in scenarios:
            _scenario(scaled(scenario), plan, brokers, consumers, found=found, say=say)
    return found


def scaled(scenario: Scenario) -> Scenario:
    """The scenario with the rates of live runs."""
    every = scenario.group().all_partitions()
    return replace(
        scenario,
        speeds={name: scenario.speed(name) / 1e6 * PROCESSED for name in scenario.topics},
        loads={each: scenario.load(each) / 1e6 * ARRIVES for each in every},
    )


def _scenario(
    scenario: Scenario,
    plan: Plan,
    brokers: Brokers,
    consumers: dict[str, Consumer],
    *,
    found: Found,
    say: Say,
) -> None:
    times = FROZEN if scenario.name == "frozen" else plan.times
    with Asked(Observed()) as asked, Producer(brokers.bootstrap, scenario.loads):
        laboratory = Laboratory(brokers, consumers, asked)
        try:
            # The first run only warms up: compilers, topics, and what our assignor knows of loads and speeds.
            laboratory.run(scenario, plan.contenders[-1], QUICK)
            for number in range(plan.runs):
                first = number % len(plan.contenders)
                for contender in (*plan.contenders[first:], *plan.contenders[:first]):
                    found.add(laboratory.run(scenario, contender, times), number)
                say(f"{scenario.name}: run {number + 1} of {plan.runs}")
        finally:
            laboratory.close()
