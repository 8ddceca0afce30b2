"""A team's own metrics in a folder: every file is loaded, a broken one is refused by name.

The folder is loaded once a process: changes in it take effect when the layers start the next time.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from sluice.metrics.base import Metric
from sluice.metrics.user import Adapter, UserMetric
from sluice.runtime.settings import metrics_folder

log = logging.getLogger(__name__)

#: The folder inside the zip that executors get (`spark.session.package_zip`).
SHIPPED = "shipped"
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MEASURES = ("number", "text")


class BadMetric(ValueError):
    """A file of the folder does not define metrics as it must."""


@dataclass
class Team:
    """What a folder holds."""

    metrics: dict[str, Metric] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)  # the text of each loaded file
    problems: dict[str, str] = field(default_factory=dict)  # why a file is not loaded

    def write(self, folder: Path) -> Path:
        """Write the loaded files to a folder named after their content, for Spark's workers.

        The team's folder may change while a layer runs. Its workers start at any time, and must all load the
        same.
        """
        target = folder / f"metrics-{self.digest}"
        target.mkdir(parents=True, exist_ok=True)
        for name, source in self.sources.items():
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
    shipped = files("sluice.metrics") / SHIPPED
    folder = shipped if shipped.is_dir() else metrics_folder()
    if not folder.is_dir():
        return {}
    entries = sorted((e for e in folder.iterdir() if e.name.endswith(".py")), key=lambda e: e.name)
    return {e.name: e.read_bytes().decode(errors="replace") for e in entries if e.name[0] not in "._"}


def load(sources: Mapping[str, str], taken: Callable[[str], bool]) -> Team:
    """Load the metrics of these files. `taken`: whether another metric already has a name."""
    team = Team()
    for file, source in sources.items():
        try:
            own = _metrics(file, source, lambda name: taken(name) or name in team.metrics)
        except (Exception, SystemExit) as error:
            team.problems[file] = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if isinstance(error, BadMetric):
                team.problems[file] = str(error)
            log.warning("metrics of %s are not loaded: %s", file, team.problems[file])
            continue
        team.metrics |= {metric.name: Adapter(metric, file) for metric in own}
        team.sources[file] = source
    return team


def _metrics(file: str, source: str, taken: Callable[[str], bool]) -> list[UserMetric[Any]]:
    """The metrics that a file defines. Raises what the file raises, or BadMetric."""
    module = ModuleType(f"sluice_team_metrics.{file.removesuffix('.py')}")
    module.__file__ = file
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102 - the team's own code, from its checkout
    classes = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, UserMetric) and each.__module__ == module.__name__
    ]
    metrics = [each() for each in classes if not inspect.isabstract(each)]
    if not metrics:
        half = [f"{c.__name__} lacks {', '.join(sorted(c.__abstractmethods__))}" for c in classes]
        raise BadMetric(
            "; ".join(half) or "no subclass of UserMetric is defined here: define one, or move the file"
        )
    names = [getattr(metric, "name", None) for metric in metrics]
    for metric, name in zip(metrics, names, strict=True):
        where = f"class {type(metric).__name__}"
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadMetric(f"{where}: name {name!r}: use a-z, 0-9 and _, 40 at most, a letter first")
        if taken(name) or names.count(name) > 1:
            raise BadMetric(f"{where}: there is a metric {name!r} already: choose another name")
        if metric.measure not in _MEASURES:
            raise BadMetric(f"{where}: measure {metric.measure!r}: use number or text")
        zero = metric.from_bytes(metric.to_bytes(metric.zero()))
        metric.to_bytes(metric.merge(zero, metric.zero()))
    return metrics
