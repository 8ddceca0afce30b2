"""A team's own metrics in a folder: every file is loaded, a broken one is refused by name.

The folder is loaded once a process: changes in it take effect when the layers start the next time. A file is
run only in a process of its own (`team_calls`). What it defines is kept under the file's digest in
`var/metrics`, so that a command that asks for no such metric starts no process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sluice.metrics.base import Metric
from sluice.metrics.team_calls import PROCESSES, TeamFile, TeamProcessLost
from sluice.metrics.team_code import MetricDescription, TeamCodeFailed, already
from sluice.metrics.team_metric import Adapter
from sluice.runtime.files import write_whole
from sluice.runtime.settings import ROOT, metrics_folder

log = logging.getLogger(__name__)

#: The folder inside the zip that executors get (`spark.session.package_zip`).
SHIPPED = "shipped"
#: What the files of a folder define, beside them: in a folder for Spark's workers.
DESCRIBED = "described.json"
KNOWN = ROOT / "var" / "metrics"
#: A file that hung or crashed as it was loaded is tried again after this.
AGAIN_SECONDS = 600.0


@dataclass
class Team:
    """What a folder holds."""

    metrics: dict[str, Metric] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)  # the text of each loaded file
    problems: dict[str, str] = field(default_factory=dict)  # why a file is not loaded
    described: dict[str, list[MetricDescription]] = field(default_factory=dict)  # by a loaded file's digest

    def contents(self) -> dict[str, str]:
        """The loaded files for Spark's workers, and what they define."""
        found = {digest: [asdict(each) for each in own] for digest, own in self.described.items()}
        return {**self.sources, DESCRIBED: json.dumps(found)}

    def write(self, folder: Path) -> Path:
        """Write the loaded files to a folder named after their content, for Spark's workers.

        The team's folder may change while a layer runs. Its workers start at any time, and must all load the
        same.
        """
        target = folder / f"metrics-{self.digest}"
        target.mkdir(parents=True, exist_ok=True)
        for name, source in self.contents().items():
            partial = target / f".{name}.{os.getpid()}.part"  # another layer may be starting, too
            partial.write_text(source)
            partial.replace(target / name)
        return target

    @property
    def digest(self) -> str:
        whole = "\0".join(f"{name}\0{source}" for name, source in sorted(self.sources.items()))
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def found() -> dict[str, str]:
    """The Python files of the folder by name: in an executor's zip, else as the settings say."""
    folder = _folder()
    if not folder.is_dir():
        return {}
    entries = sorted((e for e in folder.iterdir() if e.name.endswith(".py")), key=lambda e: e.name)
    return {e.name: e.read_bytes().decode(errors="replace") for e in entries if e.name[0] not in "._"}


def _folder() -> Traversable:
    shipped = files("sluice.metrics") / SHIPPED
    return shipped if shipped.is_dir() else metrics_folder()


def load(sources: Mapping[str, str], taken: Callable[[str], bool]) -> Team:
    """Load the metrics of these files. `taken`: whether another metric already has a name."""
    team = Team()
    for name, source in sources.items():
        file = TeamFile(name, source)
        try:
            own = _described(file)
            for each in own:
                if taken(each.name) or each.name in team.metrics:
                    raise TeamCodeFailed(already(each.class_name, each.name))
        except TeamCodeFailed as error:
            team.problems[name] = str(error)
            log.warning("metrics of %s are not loaded: %s", name, error)
            continue
        team.metrics |= {each.name: Adapter(each, file) for each in own}
        team.sources[name], team.described[file.digest] = source, own
    return team


def _described(file: TeamFile) -> list[MetricDescription]:
    """What the file defines. Raises TeamCodeFailed."""
    own = KNOWN / f"{file.digest}.json"
    for known in (_folder() / DESCRIBED, own):
        with suppress(OSError, ValueError, LookupError):
            found = json.loads(known.read_text())[file.digest]
            if not isinstance(found, str):
                return [MetricDescription(**each) for each in found]
            if time.time() - own.stat().st_mtime < AGAIN_SECONDS:
                raise TeamCodeFailed(found)
    try:
        metrics, _ = PROCESSES.ask(file, {"do": "load"})
    except TeamProcessLost as error:
        _keep(own, {file.digest: str(error)})
        raise
    _keep(own, {file.digest: metrics})
    return [MetricDescription(**each) for each in metrics]


def _keep(path: Path, known: Mapping[str, object]) -> None:
    with suppress(OSError):  # a zip, or a folder of somebody else: the next process asks again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(known), durable=False)
