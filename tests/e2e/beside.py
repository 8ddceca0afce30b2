"""A second instance beside that of the tests, by its commands, as a user has it.

It runs in the network of the tests' own, so its daemons need no doors. Two whole platforms need 11 GiB of
memory.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NAME = "trial"
TASK = "hits_by_status"
COMMAND_SECONDS = 1_200.0
#: Variables of the tests' own instance.
OTHERS = ("SLUICE_", "AIRFLOW", "SPARK_", "HADOOP_")


@dataclass
class InstanceBeside:
    """The instance and what its commands say."""

    home: Path
    environment: dict[str, str]
    python: str = sys.executable  # whose code the commands are

    def command(self, *arguments: str) -> list[str]:
        return [self.python, "-m", "sluice.cli.main", "--instance", NAME, *arguments]

    def sluice(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def done(self, *arguments: str) -> str:
        """What a command says that must succeed."""
        found = self.sluice(*arguments)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    def refused(self, *arguments: str) -> str:
        """What a command says that must not."""
        found = self.sluice(*arguments)
        assert found.returncode in (1, 2), found.stdout + found.stderr
        assert "Traceback" not in found.stderr
        return found.stderr

    def hits(self, day: dt.date) -> Counter[str]:
        """How many lines of each status `sluice results` shows."""
        times = ("--from", f"{day}", "--to", f"{day + dt.timedelta(days=1)}")
        found: Counter[str] = Counter()
        for row in json.loads(self.done("results", TASK, *times, "--format", "json")):
            found[row["status"]] += row["count"]
        return found

    def write(self, day: dt.date, lines: list[str]) -> None:
        """Append lines to the log file of that day of the front-end web1."""
        path = self.home / "frontends" / "web1" / f"access.{day}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as out:
            out.writelines(f"{line}\n" for line in lines)


def counted(lines: list[str]) -> Counter[str]:
    """How many lines each status has."""
    return Counter(line.split(" ")[8] for line in lines)


@contextmanager
def instance_beside(root: Path) -> Iterator[InstanceBeside]:
    """An instance that has nothing yet; it is deleted afterwards."""
    current = root / "var" / "current"
    before = current.read_text() if current.exists() else None
    home = root / "var" / NAME
    own = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    own |= {
        "SLUICE_NETWORK": "host",  # that of this process
        "SLUICE_ARCHIVE__MAX_AGE_SECONDS": "2",
        "SLUICE_METRICS__PATH": str(home / "metrics"),  # which a backup has
    }
    made = InstanceBeside(home, own)
    made.sluice("reset", "--yes")
    yield made
    made.sluice("down")
    made.sluice("reset", "--yes")
    if before is None:
        current.unlink(missing_ok=True)
    else:
        current.write_text(before)
