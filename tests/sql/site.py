"""The three first tasks with lines of four days, counted and published without Kafka and Spark."""

from __future__ import annotations

import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from sluice.runtime.settings import ROOT, Settings
from sluice.tasks import parse_tasks
from sluice.tasks.spec import ActiveTask
from tests.engine.samples import line
from tests.results.counting import Counting

FIRST_DAY = date(2015, 5, 17)
DAYS = [FIRST_DAY + timedelta(days=n) for n in range(4)]
NAMES = ("hits_by_status", "bytes_by_path", "hits_by_client")
PATHS = ("/", "/favicon.ico", "/presentations/a.pdf", "/presentations/b_1.pdf", "/img/x.png")
STATUSES = ("200", "200", "304", "404", "200", "500", "206")


def log(lines_a_day: int = 240) -> list[bytes]:
    """Lines of the four days; the same each time."""
    found = []
    for day_number, day in enumerate(DAYS):
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        for n in range(lines_a_day + 10 * day_number):
            at = begin + timedelta(seconds=(n * 347) % 86_400)
            client = f"10.0.{day_number if n % 5 == 0 else 9}.{n % 11}"
            size = "-" if n % 17 == 0 else str(100 + n * 37 % 4_001)
            found.append(line(client, at, PATHS[n // 3 % len(PATHS)], STATUSES[n % len(STATUSES)], size))
    return found


class Site(Counting):
    """A topic of its own with the tasks of include/tasks.yaml, which have the topic before their names."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        super().__init__(settings, parse_tasks((ROOT / "include" / "tasks.yaml").read_text()))
        self.lines, self.file = log(), folder / "access.log"
        self.file.write_bytes(b"".join(each + b"\n" for each in self.lines))
        self.partials = self.counted(self.lines)

    def full_name(self, task: str) -> str:
        return f"{self.topic}_{task}"

    def of(self, task: str) -> ActiveTask:
        """One of the tasks, by its name in include/tasks.yaml."""
        return next(each for each in self.active if each.spec.name == self.full_name(task))

    def own(self, statement: str) -> str:
        """The statement about this site's tasks in place of those of the same names."""
        for name in NAMES:
            statement = statement.replace(f"v_{name}", f"v_{self.full_name(name)}")
            statement = statement.replace(f"'{name}'", f"'{self.full_name(name)}'")
        return statement

    def publish_first(self, days: int) -> None:
        """Publish what is counted of the first days."""
        for day in DAYS[:days]:
            self.publish(day)

    def awk(self, program: str) -> list[list[str]]:
        """The words that awk prints for the log, a list for each line, in order."""
        done = subprocess.run(["awk", program, self.file], capture_output=True, text=True, check=True)
        return sorted(each.split() for each in done.stdout.splitlines())
