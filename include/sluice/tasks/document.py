"""Task files: YAML text to specs, or one line for each problem with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, StringConstraints, ValidationError

from sluice.tasks.grouping import GroupingSpec
from sluice.tasks.problem import Problem, TasksRefused, explain, named_twice
from sluice.tasks.spec import MAX_SQL, TaskSpec
from sluice.tasks.spec_base import Description, Model, Name
from sluice.tasks.zones import check_zone

#: A file of tasks is written by people; 1 MiB holds thousands of them.
MAX_DOCUMENT = 1 << 20
#: Aliases count as often as they are used, because a few lines of them can stand for billions of values.
MAX_VALUES = 200_000


class _Loader(yaml.SafeLoader):
    """YAML's safe subset without duplicate keys, merged mappings and endless aliases.

    Of duplicate keys, PyYAML would silently keep the last.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._values = 0
        self._sizes: dict[str, int] = {}  # how many values each anchor names

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._values
        self._values += 1
        anchor: Any = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if anchor in self.anchors and anchor not in self._sizes:
                raise self._refused(event, f"*{anchor} stands for something that contains it: write it out")
            self._values += self._sizes.get(anchor, 0)
        if self._values > MAX_VALUES:
            raise self._refused(event, f"more than {MAX_VALUES} values, aliases written out: split the file")
        node = super().compose_node(parent, index)
        if anchor is not None and not isinstance(event, yaml.AliasEvent):
            self._sizes[anchor] = self._values - before
        return node

    @staticmethod
    def _refused(event: Any, why: str) -> yaml.YAMLError:
        return yaml.composer.ComposerError(None, None, why, event.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, yaml.MappingNode):  # a list with the tag !!map, which `super` refuses
            return super().construct_mapping(node, deep)
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise self._refused(key, "<< merges mappings, which is not taken here: write the keys out")
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice: keep one", node.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """What a YAML text says; `TasksRefused` if it is too long, not YAML, or repeats a key."""
    if len(text) > MAX_DOCUMENT:
        raise TasksRefused(
            [Problem("", f"{len(text)} characters, {MAX_DOCUMENT} are allowed: split the file")]
        )
    try:
        return yaml.load(text, _Loader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:  # 2015-02-30, \UFFFFFFFF
        raise TasksRefused([Problem("", f"not YAML: {' '.join(str(error).split())}")]) from None


def parse_tasks(text: str) -> list[TaskSpec]:
    """The specs of a YAML list of tasks; `TasksRefused` names everything that is wrong with it."""
    document = read_yaml(text)
    if not isinstance(document, list) or not document:
        raise TasksRefused([Problem("", 'a list of tasks is expected: start each with "- name: ..."')])
    return parse_documents(document)


def parse_documents(documents: list[Any]) -> list[TaskSpec]:
    """The specs of already parsed documents (YAML or JSON)."""
    specs: dict[int, TaskSpec] = {}
    problems: list[Problem] = []
    for number, document in enumerate(documents):
        try:
            specs[number] = _spec(document, f"/{number}")
        except TasksRefused as refused:
            problems += refused.problems
        except ValidationError as error:
            problems += explain(error, f"/{number}")
    problems += named_twice({number: spec.name for number, spec in specs.items()}, "tasks")
    for number, spec in specs.items():
        problems += [Problem(f"/{number}{each.pointer}", each.message) for each in _ambiguous(spec)]
    if problems:
        raise TasksRefused(problems)
    return [*specs.values()]


def _ambiguous(spec: TaskSpec) -> Iterator[Problem]:
    """Dimensions whose column in the results would have the name of another column."""
    taken = {"period", "state", *spec.metrics, *(f"{name}_error" for name in spec.metrics)}
    for number, dimension in enumerate(spec.dimensions):
        if dimension.name in taken:
            pointer, remedy = f"/dimensions/{number}/name", "give it another name"
            if spec.sql is not None:
                pointer, remedy = "/sql", f"select it AS something else, e.g. AS {dimension.name[:58]}_value"
            reason = f"dimension {dimension.name!r} is called like another column of the results: {remedy}"
            yield Problem(pointer, reason)


class _SqlTask(Model):
    """A task that is written as SQL.

    The SELECT says everything but the task's name and, perhaps, its description, time zone and grouping.
    """

    name: Name
    description: Description | None = None
    sql: Annotated[str, StringConstraints(max_length=MAX_SQL)]
    timezone: Annotated[str, AfterValidator(check_zone)] | None = None
    grouping: GroupingSpec | None = None


def _spec(document: Any, pointer: str) -> TaskSpec:
    if not isinstance(document, dict) or "sql" not in document:
        return TaskSpec.model_validate(document)
    superfluous = [key for key in document if key in TaskSpec.model_fields.keys() - _SqlTask.model_fields]
    if superfluous:
        reason = "the SELECT of this task says it: drop this key, or sql"
        raise TasksRefused(Problem(f"{pointer}/{key}", reason) for key in superfluous)
    from sluice.tasks.sql import SqlRefused, compile_sql

    task = _SqlTask.model_validate(document)
    try:
        spec = compile_sql(task.name, task.sql, task.timezone)
    except SqlRefused as refused:
        raise TasksRefused([Problem(f"{pointer}/sql", str(refused))]) from None
    return spec.model_copy(update={"description": task.description, "grouping": task.grouping})
