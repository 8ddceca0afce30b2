"""The driver's memory of how a topic's tasks are grouped, from batch to batch.

Before a batch it says how each task is routed. After the commit it learns from what was counted, without
measuring anything of its own: the counts by key are in the merged partial aggregates, the times in the rows
of SPENT. Planners forget with the half-lives of their strategies, times and hot keys with their own (`times`,
`hot_keys`). None of it is stored. After a restart a task begins with key grouping's buckets or with
`combine`, and has a plan again after one batch; its counts are the same throughout.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from sluice.engine.set_aside import Version
from sluice.grouping.auto import LEAST_TUPLES
from sluice.speed.partition_pass import Gathered
from sluice.speed.routed.batches import by_task
from sluice.speed.routed.routes import Routes
from sluice.speed.routed.task import TaskRouting
from sluice.tasks.grouping import BY_DEFAULT, GroupingSpec
from sluice.tasks.spec import ActiveTask

log = logging.getLogger(__name__)


class TopicRouting:
    """How one topic's tasks are routed, for one writer."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._tasks: dict[Version, TaskRouting] = {}

    def routes(
        self,
        tasks: Mapping[Version, ActiveTask],
        default: GroupingSpec | None = None,
        sources: Collection[int] = (),
        lines: int = LEAST_TUPLES,
    ) -> Routes | None:
        """How the next batch is routed; None where no task is.

        Versions that are no longer counted are forgotten. default: the topic's grouping, for tasks that name
        no strategy. sources: the topic's partitions. lines: how many lines the batch has at most.
        """
        self._tasks = {version: self._of(version) for version in tasks}
        found = {}
        for version, task in tasks.items():
            try:
                self._tasks[version].ask(task.spec.grouping or default or BY_DEFAULT)
                route = self._tasks[version].route(sources, lines)
            except Exception:
                self._forget(version)
                continue
            if route is not None:
                found[version] = route
        return Routes(self._workers, found) if found else None

    def counted(self, found: Gathered) -> None:
        """Learn from a batch that was committed.

        If this fails, the batch's lines still count, and the task's routing begins again.
        """
        try:
            batches = by_task(found)
        except Exception:
            log.exception("nothing is learnt from this batch for grouping")
            return
        for version in batches.keys() & self._tasks.keys():
            try:
                self._tasks[version].counted(batches[version])
            except Exception:
                self._forget(version)

    def shown(self, topic: str, tasks: Mapping[Version, ActiveTask]) -> dict[str, dict[str, Any]]:
        """A `GroupingReport` of each task by label, as JSON takes it."""
        found = {}
        for version, task in tasks.items():
            if version not in self._tasks:
                continue
            try:
                found[task.label] = self._tasks[version].shown(task, topic)
            except Exception:
                self._forget(version)
        return found

    def _forget(self, version: Version) -> None:
        """Forget the task's routing after it raised; the task's lines are counted all the same."""
        log.exception("task %dv%d: what was known for its grouping is forgotten", *version)
        del self._tasks[version]

    def _of(self, version: Version) -> TaskRouting:
        return self._tasks.get(version) or TaskRouting(version[0], self._workers)
