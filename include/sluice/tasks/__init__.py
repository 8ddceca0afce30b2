"""What users ask to be counted."""

from sluice.tasks.document import parse_documents, parse_tasks
from sluice.tasks.fit import check_task
from sluice.tasks.grouping import GroupingSpec
from sluice.tasks.period import Period
from sluice.tasks.problem import Problem, TasksRefused, explain
from sluice.tasks.spec import ActiveTask, TaskSpec
from sluice.tasks.topic_spec import TimeSpec, TopicSpec

__all__ = [
    "ActiveTask",
    "GroupingSpec",
    "Period",
    "Problem",
    "TaskSpec",
    "TasksRefused",
    "TimeSpec",
    "TopicSpec",
    "check_task",
    "explain",
    "parse_documents",
    "parse_tasks",
]
