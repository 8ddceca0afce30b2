"""What the speed layer shows of its grouping: a part of its progress file.

The command line and the API read it. It describes one running speed layer: after a restart it begins again,
and it is complete after a few batches.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from sluice.stack.progress import SpeedLayerProgress

#: How many hot keys and workers are shown of a task, and how many characters of a key's value.
HOT, LOADS, CHARACTERS = 10, 64, 200


class HotKeyReport(BaseModel):
    """A key that is hot."""

    key: tuple[str, ...] = Field(description="The values of the task's dimensions.")
    share: float = Field(description="Of the task's tuples, over the last batches; each counts half after 8.")
    error: float = Field(description="By how much the share may be too low.")
    workers: tuple[int, ...] = Field(
        description="Candidates: the workers that the strategy gave it to in the last batch; none where it "
        "is combined."
    )


class LoadReport(BaseModel):
    """A worker's part of the last batch."""

    worker: int
    tuples: int
    seconds: float
    time: float = Field(description="Seconds a tuple, smoothed: the weight that its strategy gives it.")


class ImbalanceReport(BaseModel):
    """max / mean - 1 of the workers' loads, tuples times time."""

    last: float = Field(description="Of the last batch.")
    hour: float = Field(description="The mean over the last hour, by tuples.")
    worst: float = Field(description="The worst batch of the last hour.")


class PlanReport(BaseModel):
    """How planned grouping deals out the next batch."""

    expected: float = Field(description="Tuples that it is made for; 0: no batch was seen yet.")
    listed: int = Field(description="Keys that are placed one by one.")
    split: int = Field(description="Of these, keys that several workers share.")
    buckets: int = Field(description="All other keys fall into these by hash; each has one worker.")


class FiguresReport(BaseModel):
    """What the last batch measured of a task."""

    tuples: int
    groups: int = Field(description="Series with a tuple, by period.")
    rows: float = Field(description="Partial aggregates that the sources send where it is combined.")
    cost: float = Field(description="Seconds a tuple takes where it is aggregated.")
    state: float = Field(description="Bytes of a partial aggregate.")
    top: float = Field(description="Share of the most frequent key.")
    widest: float = Field(description="Share of the largest source.")
    workers: int


class DecisionReport(BaseModel):
    """What `auto` decided, and why."""

    strategy: str
    reason: str
    estimates: dict[str, float] = Field(description="Seconds that the last batch takes by each strategy.")
    figures: FiguresReport | None
    rival: str | None = Field(description="Better in the last batches, but not in enough of them.")
    streak: int


class GroupingReport(BaseModel):
    """How a task's lines are dealt out to workers."""

    task: str
    label: str
    topic: str
    asked: str | dict[str, Any] = Field(description="What the task, or else its topic, asks for.")
    strategy: str = Field(description="What its lines are grouped by.")
    error: str | None = Field(description="Why it is not what was asked for.")
    decision: DecisionReport | None = Field(description="What auto decided; None without it.")
    plan: PlanReport | None = Field(description="None where the strategy makes none.")
    imbalance: ImbalanceReport | None = Field(description="None where the task is combined.")
    load: tuple[LoadReport, ...] = Field(description=f"By worker; of more than {LOADS}, the busiest.")
    hot: tuple[HotKeyReport, ...]
    batch_at: datetime | None = Field(description="When a batch last had lines of the task.")


class NothingCounted(LookupError):
    """No running speed layer has counted the task yet."""

    def __init__(self, task: str | None) -> None:
        of = "any task" if task is None else f"task {task!r}"
        super().__init__(f"no running speed layer has counted {of} yet: `sluice status` shows what runs")


def reports(progress: SpeedLayerProgress, task: str | None = None) -> list[GroupingReport]:
    """The reports of that task, or of all tasks by name. Raises NothingCounted.

    progress: the speed layer's, as of `stack.jobs.speed_layer`.
    """
    found = [
        GroupingReport.model_validate(document)
        for topic in progress.topics.values()
        for document in topic.grouping.values()
    ]
    chosen = [report for report in found if task in (None, report.task)]
    if not chosen:
        raise NothingCounted(task)
    return sorted(chosen, key=lambda report: report.task)
