"""The tasks that Sluice starts with, and whether an older instance still has them as they once were.

They used to cut an access log at blanks, which takes another word for the status wherever a path or a user
has a blank. Stored tasks belong to their users, so no upgrade changes them: it says what to run.
"""

from __future__ import annotations

from pathlib import Path

from sluice.tasks.document import parse_tasks
from sluice.tasks.spec import TaskSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topic_spec import TopicFormat
from sluice.tasks.topics import TopicStore

#: Where they are, from the root of the platform.
FILE = "include/tasks.yaml"
_BLANK = " "


def first_tasks(root: Path) -> list[TaskSpec]:
    """The tasks of a new platform."""
    return parse_tasks((root / FILE).read_text())


def cut_at_blanks(tasks: TaskStore, topics: TopicStore, root: Path) -> list[str]:
    """The names of those stored first tasks that cut the lines of an access log at blanks."""
    given = {spec.name: spec.topic for spec in first_tasks(root)}
    stored = [task.spec for task in tasks.list() if given.get(task.name) == task.topic]
    return [
        spec.name
        for spec in stored
        if _takes_words(spec) and topics.get(spec.topic).format == TopicFormat.COMBINED
    ]  # fmt: skip


def advice(names: list[str]) -> str:
    """One sentence for the person whose tasks these are: what is wrong, and the command that mends it."""
    return (
        f"The tasks {', '.join(names)} still cut lines at blanks, so a line with a blank in its request or "
        f"user counts under a wrong value: run sluice tasks apply -f {FILE} {' '.join(names)}"
    )


def _takes_words(spec: TaskSpec) -> bool:
    extracts = [*(d.extract for d in spec.dimensions), *(c.extract for c in spec.where)]
    extracts += [spec.measure.extract] if spec.measure else []
    return any(extract.delimiter == _BLANK for extract in extracts)
