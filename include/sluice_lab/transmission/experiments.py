"""The experiments that docs/transmission.md reports.

computed: every assignor on every scenario, asked without a broker. The other experiments are of runs on live
brokers: live has their phases, samples rates and CPU over time in paper 003's scenario, stood how long each
partition stood still.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil

from sluice.assignment.smoothing import ObservedGroup
from sluice.runtime.settings import ROOT
from sluice_lab.processes import LaboratoryFailed
from sluice_lab.runs import RunKey
from sluice_lab.saved_rows import keep
from sluice_lab.transmission import computed
from sluice_lab.transmission.assignor_server import AssignorServer
from sluice_lab.transmission.brokers import Brokers
from sluice_lab.transmission.members import Consumer, Producer, processors
from sluice_lab.transmission.rivals import ALL
from sluice_lab.transmission.run import GroupLaboratory, GroupRunLog, GroupTimes
from sluice_lab.transmission.runs import GroupRuns
from sluice_lab.transmission.scenarios import ARRIVES, PAPER, PROCESSED, SCENARIOS, GroupScenario

FOLDER = ROOT / "docs" / "transmission"
#: Fifty consumers do not fit on one machine, so `large` is only computed.
LIVE = ("paper", "skew", "slow", "both", "rolling", "flapping", "frozen", "growing")
RUNS = 3
#: Paper 003's minute takes 24 s: C0 leaves after 8 s and comes back after 16.
TIMES = GroupTimes(settle=8.0, gap=8.0)
#: What has no picture over time needs no clock: a phase lasts until the group is stable.
SHORT = GroupTimes(settle=5.0, gap=5.0)
#: Where partitions or members are unequal, the slowest member first reads what came while the group started.
#: What still waits for it would be part of the standstill of a step.
UNEQUAL = GroupTimes(settle=16.0, gap=5.0)
QUICK = GroupTimes(settle=3.0, gap=3.0)
#: Before runs that need known loads and speeds, and before the first one, for the compilers.
WARM_UP = GroupTimes(settle=8.0, gap=0.0)
#: A phase of a stable group takes about this long, and one with a member that died; a run beside its phases.
PHASE_SECONDS, DROPPED_SECONDS, BETWEEN_SECONDS = 6.0, 11.0, 3.0
_READY_SECONDS = 180.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class GroupPlan:
    """What is measured on live brokers.

    times: of each scenario; by default TIMES for paper 003's, UNEQUAL where loads and speeds are known, and
    SHORT for others. by_load: whether our assignor gets loads and speeds, in scenarios where they are known.
    arrives: bytes a second of all partitions of paper 003's group, if all are ordinary ones.
    """

    scenarios: Sequence[str] = LIVE
    contenders: Sequence[str] = ALL
    runs: int = RUNS
    times: GroupTimes | None = None
    by_load: bool = True
    arrives: float = ARRIVES

    def times_of(self, scenario: str) -> GroupTimes:
        return self.times or (
            TIMES if scenario == PAPER.name else UNEQUAL if SCENARIOS[scenario].known else SHORT
        )

    def order(self) -> list[RunKey]:
        """Every run, in order: after each round all scenarios have had equally many.

        Contenders take turns, and each round begins with another one. What the machine does meanwhile hits
        all alike.
        """
        return [
            RunKey(scenario, self.contenders[(place + number) % len(self.contenders)], number)
            for number in range(self.runs)
            for scenario in self.scenarios
            for place in range(len(self.contenders))
        ]


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def minutes(keys: Sequence[RunKey], plan: GroupPlan) -> float:
    """About how long these runs of the plan take on live brokers."""
    seconds = 0.0
    for key in keys:
        times, steps = plan.times_of(key.scenario), SCENARIOS[key.scenario].steps
        phases = [DROPPED_SECONDS if step.kind == "freeze" else PHASE_SECONDS for step in steps]
        seconds += BETWEEN_SECONDS + max(PHASE_SECONDS, times.settle)
        seconds += sum(max(phase, times.gap) for phase in phases)
    return seconds / 60


def compute(folder: Path = FOLDER) -> None:
    """Ask every assignor, and keep the rows."""
    keep("computed", list(computed.rows()), folder)


def missing(plan: GroupPlan, runs: GroupRuns) -> list[RunKey]:
    """The plan's runs that are not kept yet."""
    return [key for key in plan.order() if key not in runs.done]


def measure(plan: GroupPlan, runs: GroupRuns, say: Say = _to_stderr) -> None:
    """Run what of the plan is not kept yet, keep each run as soon as it is over, and say what went wrong."""
    keys = missing(plan, runs)
    for number, (key, log) in enumerate(live(plan, keys), 1):
        runs.add(log, key.run)
        say(f"{number} of {len(keys)}: {key.scenario}, {key.contender}, run {key.run + 1}")
        for problem in log.problems:
            say(f"  {problem}")


def live(plan: GroupPlan, keys: Sequence[RunKey]) -> Iterator[tuple[RunKey, GroupRunLog]]:
    """Run these of the plan's runs on brokers of their own."""
    if not keys:
        return
    with _cluster({name for key in keys for name in SCENARIOS[key.scenario].topics}) as cluster:
        warm = False
        for block in _blocks(keys):
            scenario = scaled(SCENARIOS[block[0].scenario], plan.arrives)
            # Where nothing was measured before, the computed figures know no loads either.
            with AssignorServer(ObservedGroup(), plan.by_load and scenario.known) as asked:
                if scenario.known or not warm:
                    still = replace(scenario, steps=())
                    _run(cluster, asked, still, block[-1].contender, WARM_UP)
                    warm = True
                for key in block:
                    log = _run(cluster, asked, scenario, key.contender, plan.times_of(key.scenario))
                    log.arrives, log.pinned, log.cores = (
                        plan.arrives,
                        len(processors()),
                        psutil.cpu_count() or 0,
                    )
                    yield key, log


def ordinary_load(scenario: GroupScenario, arrives: float) -> float:
    """Bytes a second of an ordinary partition. arrives: of all those of paper 003's group.

    A group of more members has more partitions, and as much for all of them together.
    """
    all_of = scenario if len(scenario.topics) > len(PAPER.topics) else PAPER
    return arrives / sum(all_of.partitions.values())


def scaled(scenario: GroupScenario, arrives: float = ARRIVES) -> GroupScenario:
    """The scenario with the rates of live runs."""
    ordinary = ordinary_load(scenario, arrives)
    every = replace(scenario.group(), partitions=scenario.most_partitions()).all_partitions()
    return replace(
        scenario,
        speeds={name: scenario.speed(name) / 1e6 * PROCESSED for name in scenario.topics},
        loads={each: scenario.load(each) / 1e6 * ordinary for each in every},
    )


class _Cluster(NamedTuple):
    """Brokers and consumer processes, by their names."""

    brokers: Brokers
    consumers: dict[str, Consumer]


@contextmanager
def _cluster(members: Collection[str]) -> Iterator[_Cluster]:
    with ExitStack() as stack:
        brokers = stack.enter_context(Brokers())
        consumers: dict[str, Consumer] = {}
        for name in sorted(members):
            consumers[name] = Consumer(name)
            stack.callback(consumers[name].stop)
        if not all(consumer.ready(_READY_SECONDS) for consumer in consumers.values()):
            raise LaboratoryFailed(f"the consumers did not start within {_READY_SECONDS:.0f} s")
        yield _Cluster(brokers, consumers)


def _run(
    cluster: _Cluster, asked: AssignorServer, scenario: GroupScenario, contender: str, times: GroupTimes
) -> GroupRunLog:
    """One run with empty topics and a producer of its own."""
    cluster.brokers.make(scenario.partitions)
    rates = {each: scenario.load(each) for each in scenario.group().all_partitions()}
    with Producer(cluster.brokers.bootstrap, rates) as producer:
        laboratory = GroupLaboratory(*cluster, asked, [producer.pid])
        try:
            return laboratory.run(scenario, contender, times)
        finally:
            laboratory.close()


def _blocks(keys: Sequence[RunKey]) -> Iterator[list[RunKey]]:
    """Runs of one scenario that follow one another."""
    block: list[RunKey] = []
    for key in keys:
        if block and key.scenario != block[0].scenario:
            yield block
            block = []
        block.append(key)
    yield block
