"""Keeps the SQL tables to the tasks, on the watch's beat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sqlalchemy.exc import SQLAlchemyError

from sluice.metrics import UnknownMetric, load_team, metric
from sluice.runtime.settings import Settings
from sluice.sql.metastore import keep
from sluice.sql.tables import SqlTable, tables
from sluice.storage.hive import Hive, SqlFailed, SqlUnavailable
from sluice.storage.postgres import engine
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import Task, TaskStore

#: The tables are compared with the metastore's when tasks change, when the endpoint was away, and this often.
CHECK_SECONDS = 300.0
DAEMON = "sql"
_AWAY = "the SQL tables are not kept"


class TableKeeper:
    """Called with the daemons' problems after each round of the watch; returns at once.

    It works in a thread of its own, as the endpoint may take long to answer. A round that comes while the one
    before is still at work is left out.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._thread: threading.Thread | None = None
        self._kept: Sequence[SqlTable] | None = None  # None: to be compared with the metastore's
        self._checked = 0.0
        self._said: set[str] = set()

    def __call__(self, problems: Mapping[str, str]) -> None:
        if "sql" in self._settings.external or (self._thread is not None and self._thread.is_alive()):
            return
        self._thread = threading.Thread(target=self.look, args=(problems,), daemon=True)
        self._thread.start()

    def look(self, problems: Mapping[str, str]) -> None:
        """Keep the tables, if the endpoint answers and they may have to change."""
        if problems.get(DAEMON, ""):
            self._kept = None
            return
        try:
            wanted = tables(self._known(TaskStore(engine(self._settings)).list()))
            now = time.monotonic()
            if wanted == self._kept and now - self._checked < CHECK_SECONDS:
                return
            self._kept = None
            with Hive(self._settings) as hive:
                for line in keep(hive, wanted):
                    self._say(line)
            self._kept, self._checked = wanted, now
            self._said.discard(_AWAY)
        except (SQLAlchemyError, SqlFailed, SqlUnavailable) as error:
            self._say_once(_AWAY, str(error).splitlines()[0])

    def _known(self, tasks: Iterable[Task]) -> Iterator[ActiveTask]:
        """The tasks whose metrics this process knows; the others get no table."""
        load_team()
        for task in tasks:
            try:
                for name in task.spec.metrics:
                    metric(name)
            except UnknownMetric as unknown:
                self._say_once(f"{task.name} ({task.label}) has no table", str(unknown))
            else:
                yield ActiveTask(task.task_id, task.version, task.spec)

    def _say_once(self, what: str, why: str) -> None:
        if what not in self._said:
            self._say(f"{what}: {why}")
        self._said.add(what)
