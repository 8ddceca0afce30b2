"""What the log of a run says: rates, owners, moves, standstill, doubles, CPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sluice.assignment.base import AssignedPartition, Assignment
from sluice.assignment.evaluation import by_load, by_number, counts, moves
from sluice_lab.transmission import ownership
from sluice_lab.transmission.members import MemberEvent
from sluice_lab.transmission.run import GroupRunLog
from sluice_lab.trials import Row


class GroupPhase(NamedTuple):
    """The time from one step to the next. label: the step that begins it, or "start"."""

    label: str
    begin: float
    end: float


def phases(log: GroupRunLog) -> list[GroupPhase]:
    """The run from its start, step by step."""
    labels = ["start", *map(str, log.scenario.steps)]
    bounds = [log.began, *log.steps, log.ended]
    return [GroupPhase(label, *span) for label, span in zip(labels, pairwise(bounds), strict=True)]


def owners(log: GroupRunLog, at: float) -> Assignment:
    """What each member in the group had at that second. A member that has left is not there."""
    return ownership.owners(log.events, at)


def standstill(log: GroupRunLog, phase: GroupPhase) -> dict[AssignedPartition, float]:
    """The longest time in the phase in which nobody processed a record, by partition, in seconds."""
    seen: dict[AssignedPartition, list[float]] = defaultdict(list)
    for event in _got(log):
        for partition in event.partitions():
            seen[partition].append(event.at)
    longest = {}
    for partition, times in seen.items():
        before = max((at for at in times if at < phase.begin), default=phase.begin)
        within = [at for at in sorted(times) if phase.begin <= at < phase.end]
        longest[partition] = max(after - first for first, after in pairwise([before, *within, phase.end]))
    return longest


def twice(log: GroupRunLog) -> int:
    """Records that were processed more than once in the run."""
    spans: dict[AssignedPartition, list[tuple[int, int]]] = defaultdict(list)
    for event in _got(log):
        for topic, number, first, following in event.what["of"]:
            spans[AssignedPartition(topic, number)].append((first, following))
    again = 0
    for found in spans.values():
        reached = 0
        for first, following in sorted(found):
            again += max(0, min(reached, following) - first)
            reached = max(reached, following)
    return again


def rate(log: GroupRunLog, begin: float, end: float, member: str | None = None) -> float:
    """Bytes a second that were processed, by one member or by all."""
    size = sum(
        event.what["bytes"]
        for event in _got(log)
        if begin <= event.at < end and member in (None, event.member)
    )
    return float(size / (end - begin)) if end > begin else 0.0


def balanced_after(log: GroupRunLog, phase: GroupPhase) -> float:
    """Seconds from the step until partitions changed hands for the last time in the phase."""
    changes = [
        event.at
        for event in log.events
        if event.kind in ("assigned", "revoked", "lost")
        and phase.begin <= event.at < phase.end
        and event.what["of"]
    ]
    return max(changes, default=phase.begin) - phase.begin


def cpu(log: GroupRunLog, phase: GroupPhase, member: str | None = None) -> float:
    """The part of one processor that one member used in the phase, or all members together."""
    looks = [
        (at, sum(used.values()) if member is None else used[member])
        for at, used in log.looks
        if phase.begin <= at <= phase.end
    ]
    if not looks:
        return 0.0
    (first, before), (last, after) = looks[0], looks[-1]
    return (after - before) / (last - first) if last > first else 0.0


def rows(log: GroupRunLog, number: int) -> Iterator[Row]:
    """A row for each phase. Times are seconds, rates megabytes a second. number: of the run.

    settled: 1 if the group was stable at the phase's end. busy: processors that other programs used in the
    run. pinned, cores: processors that each consumer could use, and that the machine has. arrives: megabytes
    a second of 13 ordinary partitions.
    """
    speeds = {member: log.scenario.speed(member) for member in log.scenario.topics}
    before: Assignment = {}
    again = twice(log)
    steps = (None, *log.scenario.steps)
    for phase, settled, step in zip(phases(log), log.settled, steps, strict=True):
        held = owners(log, phase.end)
        if step is not None and step.kind == "freeze":
            held.pop(step.what, None)  # the group has dropped it, but it cannot know
        every = {each: log.scenario.load(each) for some in held.values() for each in some}
        stood = sorted(standstill(log, phase).values()) or [0.0]
        moved = moves(before, held)
        middle = (phase.begin + phase.end) / 2
        yield {
            "scenario": log.scenario.name,
            "strategy": log.contender,
            "run": number,
            "step": phase.label,
            "partitions": "/".join(map(str, counts(held))),
            "number": by_number(held),
            "load": by_load(held, every, {member: speeds[member] for member in held}),
            "moved": moved.all,
            "living": moved.living,
            "p50": stood[len(stood) // 2],
            "worst": stood[-1],
            "balanced": balanced_after(log, phase),
            "rate": rate(log, phase.begin, phase.end) / 1e6,
            "later_rate": rate(log, middle, phase.end) / 1e6,
            "twice": again,
            "cpu": cpu(log, phase),
            "settled": int(settled),
            "busy": log.busy,
            "pinned": log.pinned,
            "cores": log.cores,
            "arrives": log.arrives / 1e6,
        }
        before = held


def samples(log: GroupRunLog, number: int, every: float) -> Iterator[Row]:
    """The rate and the CPU use of each member and of all, sampled every `every` seconds.

    A phase that waited for the group is cut at the gap between two steps. So all runs have their steps at the
    same times.
    """
    names = list(log.scenario.topics)
    for place, phase in enumerate(phases(log)):
        for tick in range(int(min(log.gap, phase.end - phase.begin) / every + 1e-6)):
            at = phase.begin + tick * every
            row: Row = {
                "scenario": log.scenario.name,
                "strategy": log.contender,
                "run": number,
                "at": place * log.gap + tick * every,
            }
            for name in names:
                row[name] = rate(log, at, at + every, name) / 1e6
            row["all"] = rate(log, at, at + every) / 1e6
            span = GroupPhase("", at, at + every)
            row["cpu"] = cpu(log, span)
            for name in names:
                row[f"{name} cpu"] = cpu(log, span, name)
            yield row


def stood(log: GroupRunLog, number: int) -> Iterator[Row]:
    """How long each partition stood still after each step."""
    for phase in phases(log)[1:]:
        for partition, seconds in sorted(standstill(log, phase).items()):
            yield {
                "scenario": log.scenario.name,
                "strategy": log.contender,
                "run": number,
                "step": phase.label,
                "partition": f"{partition.topic}-{partition.number}",
                "seconds": seconds,
            }


def _got(log: GroupRunLog) -> list[MemberEvent]:
    return [event for event in log.events if event.kind == "got"]
