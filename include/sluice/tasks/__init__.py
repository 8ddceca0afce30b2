"""What users ask to be counted."""

from sluice.tasks.document import Problem, TasksRefused, explain, parse_documents, parse_tasks
from sluice.tasks.spec import ActiveTask, TaskSpec, TopicSpec

__all__ = [
    "ActiveTask",
    "Problem",
    "TaskSpec",
    "TasksRefused",
    "TopicSpec",
    "explain",
    "parse_documents",
    "parse_tasks",
]
