"""What the database says of one topic: tasks, the lines' format, the default grouping."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import sqlalchemy as sa

from sluice.engine.set_aside import Failures, Version
from sluice.speed.progress import SpeedProgress
from sluice.storage.postgres import patiently
from sluice.tasks.grouping import GroupingSpec
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore
from sluice.tasks.topic_spec import TopicSpec
from sluice.tasks.topics import TopicStore


class TopicTasks:
    """The tasks of one topic.

    All reads except `look` wait `patience` seconds for a PostgreSQL that is away.
    """

    def __init__(self, database: sa.Engine, topic: str, patience: float, progress: SpeedProgress) -> None:
        self._topic = topic
        self._patience = patience
        self._progress = progress
        self._tasks = TaskStore(database)
        self._topics = TopicStore(database)
        self._format: TopicSpec | None = None
        self._known: dict[Version, ActiveTask] = {}

    def active(self) -> dict[Version, ActiveTask]:
        """The tasks that count now."""
        return patiently(self.look, self._patience)

    def look(self) -> dict[Version, ActiveTask]:
        """The same without waiting: raises an error if PostgreSQL is away."""
        tasks = {(task.task_id, task.version): task for task in self._tasks.active(self._topic)}
        self._known |= tasks
        return tasks

    def versions(self, wanted: Iterable[Version]) -> dict[Version, ActiveTask]:
        """These versions, whether they count now or not."""
        wanted = set(wanted)
        for version in wanted - self._known.keys():
            self._known[version] = patiently(partial(self._tasks.version, *version), self._patience)
        return {version: self._known[version] for version in wanted}

    def format(self) -> TopicSpec:
        """How lines are read. The first call freezes the topic's format."""
        if self._format is None:
            self._format = patiently(partial(self._topics.freeze, self._topic), self._patience)
        return self._format

    def default_grouping(self) -> GroupingSpec | None:
        """The topic's grouping, for tasks that name none; it may change at any time."""
        return patiently(partial(self._topics.get, self._topic), self._patience).grouping

    def set_aside(self, failures: Failures) -> None:
        """Set these tasks aside, and show on each why it is no longer counted."""
        for (task_id, version), message in failures.items():
            self._progress.error(self._topic, f"task {task_id}v{version} was set aside: {message}")
            patiently(partial(self._tasks.set_aside, task_id, version, message), self._patience)
