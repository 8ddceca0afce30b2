"""Whether a task fits the topic that it reads."""

from __future__ import annotations

from sluice.tasks.extract import Extract
from sluice.tasks.problem import Problem
from sluice.tasks.spec import TaskSpec
from sluice.tasks.topic_spec import TopicSpec


def check_task(spec: TaskSpec, topic: TopicSpec) -> list[Problem]:
    """Problems of a task with the topic that it reads; their pointers are into the task."""
    places: list[tuple[str, Extract]] = [
        *((f"/where/{n}/extract", c.extract) for n, c in enumerate(spec.where)),
        *((f"/dimensions/{n}/extract", d.extract) for n, d in enumerate(spec.dimensions)),
    ]
    if spec.measure is not None:
        places.append(("/measure", spec.measure.extract))
    found = ((pointer, topic.unknown_field(extract)) for pointer, extract in places)
    wrong = [(pointer, problem) for pointer, problem in found if problem is not None]
    if spec.sql is not None:  # an author of SQL does not know dimensions/0
        return [Problem("/sql", problem) for problem in dict.fromkeys(problem for _, problem in wrong)]
    return [Problem(f"{pointer}/field", problem) for pointer, problem in wrong]
