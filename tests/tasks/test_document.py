from __future__ import annotations

import pytest
import yaml

from sluice.runtime.settings import ROOT
from sluice.tasks import GroupingSpec, TasksRefused, TopicSpec, parse_tasks

# Nine lines that stand for 10^9 values.
BOMB = "- &0 [0]\n" + "".join(f"- &{n} [{', '.join([f'*{n - 1}'] * 10)}]\n" for n in range(1, 10))
TASK = "- {name: a, topic: logs, period: 1m, metrics: [count]}\n"


def test_a_list_of_tasks() -> None:
    assert [t.name for t in parse_tasks(TASK + TASK.replace("name: a", "name: b"))] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a list of tasks is expected"),
        ("{}", "a list of tasks is expected"),
        ("name: a", "a list of tasks is expected"),
        ("[", "not YAML"),
        ("\x00", "not YAML"),
        ("[" * 1000, "not YAML"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
        (TASK.replace("topic: logs", "name: b"), "the key 'name' is given twice"),
        (TASK + TASK, "/1/name: 'a' is the name of two tasks here"),
        ("- 5\n" + TASK + TASK, "/2/name: 'a' is the name of two tasks here"),
        (f"- &a {TASK[2:]}- {{<<: *a, name: b}}", "<< merges mappings, which is not taken here"),
        ("- 5", "/0: 5: keys and values are expected here"),
        (BOMB, "more than 200000 values, aliases written out"),
        ("- &a {name: a, where: [*a]}", "*a stands for something that contains it"),
        ("- *a", "undefined alias"),
        ("- !!map [a]", "not YAML: expected a mapping node"),
        ("- {name: 2015-02-30}", "not YAML: day is out of range for month"),
        ("- {name: 0x_}", "not YAML"),
        ("- {name: " + "9" * 5000 + "}", "not YAML"),
        ('- {name: "\\UFFFFFFFF"}', "not YAML"),
        ("#" * (1 << 20) + "\n" + TASK, "are allowed: split the file"),
    ],
)
def test_what_is_no_list_of_tasks_is_refused(text: str, says: str) -> None:
    with pytest.raises(TasksRefused) as error:
        parse_tasks(text)
    assert says in str(error.value)


def test_a_part_may_be_named_and_used_again() -> None:
    extract = "{delimiter: ' ', index: 8}"
    text = TASK.replace("}\n", f", dimensions: [{{name: s, extract: &status {extract}}}]}}\n")
    text += text.replace("name: a", "name: b").replace(f"&status {extract}", "*status")
    first, second = parse_tasks(text)
    assert first.dimensions == second.dimensions


def test_a_period_that_yaml_takes_for_a_number_of_seconds_is_refused() -> None:
    with pytest.raises(TasksRefused, match="a text is expected: put it in quotes"):
        parse_tasks(TASK.replace("1m", "1:30"))  # YAML 1.1: 90


def test_a_value_too_long_to_show_is_cut() -> None:
    with pytest.raises(TasksRefused) as error:
        parse_tasks(TASK.replace("name: a", f"name: {'A' * 5000}"))
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("name", ["period", "state", "count", "unique", "unique_error"])
def test_a_dimension_must_not_be_called_like_another_column_of_the_results(name: str) -> None:
    path = "{delimiter: ' ', index: 6}"
    text = TASK.replace(
        "[count]}", f"[count, unique], measure: {path}, dimensions: [{{name: x, extract: {path}}}]}}"
    )
    parse_tasks(text)
    with pytest.raises(
        TasksRefused, match=f"/0/dimensions/0/name: dimension '{name}' is called like another"
    ):
        parse_tasks(text.replace("name: x", f"name: {name}"))


def test_nor_must_it_in_sql() -> None:
    text = "- {name: a, sql: \"SELECT count, count(*) FROM shop GROUP BY count, period('1m')\"}"
    with pytest.raises(TasksRefused, match=r"/0/sql: dimension 'count' .* AS count_value"):
        parse_tasks(text)
    assert parse_tasks(text.replace("SELECT count,", "SELECT count AS n,").replace("BY count", "BY n"))


def examples_of_the_docs() -> list[str]:
    text = (ROOT / "docs" / "tasks.md").read_text()
    return [block.partition("```")[0] for block in text.split("```yaml\n")[1:]]


def test_the_examples_of_the_docs_are_tasks_and_topics() -> None:
    first, second, topics, groupings = examples_of_the_docs()
    (task,) = parse_tasks(first)
    assert set(task.metrics) == {"count", "sum", "avg", "min", "max", "missing"}
    assert [TopicSpec.model_validate(each).name for each in yaml.safe_load(topics)] == ["shop", "proxy"]
    (by_sql,) = parse_tasks(second)
    assert by_sql.metrics == ("count", "p95")
    named = [GroupingSpec.model_validate(each["grouping"]) for each in yaml.safe_load(groupings)]
    assert [each.strategy for each in named] == ["planned", "planned"]
