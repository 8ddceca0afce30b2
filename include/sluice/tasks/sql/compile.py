"""A SELECT compiled to the spec of a task.

    SELECT status, count(*), p95(bytes)
    FROM logs
    WHERE method = 'GET' AND path NOT LIKE '/static/%'
    GROUP BY status, period('60s', 'Europe/Berlin')

Everything that SELECT names besides metrics and the period is a dimension, in that order. GROUP BY names the
dimensions again, and the period. The grammar is a table in docs/tasks.md.
"""

from __future__ import annotations

import re

from pydantic import ValidationError
from sqlglot import exp

from sluice.tasks.period import UTC
from sluice.tasks.problem import Problem, explain
from sluice.tasks.spec import Condition, Dimension, TaskSpec
from sluice.tasks.spec_base import NAME
from sluice.tasks.sql.conditions import Conditions
from sluice.tasks.sql.metrics import MetricReader, MetricRequest
from sluice.tasks.sql.statement import TOO_DEEP, SelectStatement, SqlRefused
from sluice.tasks.sql.values import ValueCompiler, unparen
from sluice.tasks.topic_spec import LINE, TopicSpec

_PERIOD = "period"


def _suggested(field: str) -> str:
    """A dimension's name made from a field's: user_agent for userAgent."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
    return (plain if plain[:1].isalpha() else f"field_{plain}")[:64].rstrip("_")


def compile_sql(
    name: str, text: str, timezone: str | None = None, topic: TopicSpec | None = None
) -> TaskSpec:
    """The task `name` that the SELECT describes.

    `timezone`: the task's own, if it names one. With `topic`, fields that its format does not name are
    refused here; without it, `check_task` refuses them later. `SqlRefused` says which word does not compile,
    and why.
    """
    try:
        return _Compiler(SelectStatement(text), timezone, topic).task(name)
    except RecursionError:
        raise SqlRefused("the text", 0, text, TOO_DEEP) from None


class _Compiler:
    def __init__(self, statement: SelectStatement, timezone: str | None, topic: TopicSpec | None) -> None:
        self._statement, self._timezone = statement, timezone
        self._select = statement.select
        statement.only(self._select, "expressions", "from_", "where", "group")
        self._topic = self._from()
        spec = topic if topic is not None and topic.name == self._topic else None
        self._values = ValueCompiler(statement, self._topic, spec)
        self._metrics = MetricReader(statement, self._values)

    def task(self, name: str) -> TaskSpec:
        dimensions, metrics, periods = self._selected()
        period, zone = self._grouped(dimensions, periods)
        measure = self._metrics.measure(metrics)
        try:
            return TaskSpec(
                name=name,
                topic=self._topic,
                period=period,
                timezone=zone,
                where=self._where(),
                dimensions=tuple(dimensions),
                measure=measure,
                metrics=tuple(m.name for m in metrics),
                sql=self._statement.text,
            )
        except ValidationError as error:
            raise self._refused_spec(error) from None

    def _from(self) -> str:
        statement, source = self._statement, self._select.args.get("from_")
        if source is None:
            raise statement.refused("SELECT", "it has no FROM: name the topic, e.g. FROM logs")
        table = source.this
        if not isinstance(table, exp.Table):
            raise statement.unsupported(table)
        if table.args.get("alias"):
            raise statement.refused(
                table.alias, "there is one topic, so it needs no other name: drop it", table.args["alias"]
            )
        if table.args.get("db"):
            raise statement.refused(
                table.sql(),
                f'a topic has no schema: quote a name with dots, FROM "{table.db}.{table.name}"',
                table,
            )
        statement.only(table, "this")
        if not isinstance(table.this, exp.Identifier):
            reason = "a topic is named here, and nothing else is read: FROM logs"
            raise statement.refused(statement.written(table.this), reason, table.this)
        return str(table.name)

    def _where(self) -> tuple[Condition, ...]:
        where = self._select.args.get("where")
        return tuple(Conditions(self._statement, self._values).of(where.this)) if where else ()

    def _selected(self) -> tuple[list[Dimension], list[MetricRequest], list[exp.Expression]]:
        dimensions, metrics, periods = [], [], []
        for item in self._select.expressions:
            node, alias = (item.this, item.alias) if isinstance(item, exp.Alias) else (item, "")
            node = unparen(node)
            if self._is_call(node, _PERIOD):
                if alias and alias != _PERIOD:
                    reason = f"the period keeps its name: drop it, results call it {_PERIOD!r}"
                    raise self._statement.refused(alias, reason, item.args["alias"])
                periods.append(node)
            elif (asked := self._metrics.of(node)) is not None:
                if alias and alias != asked.name:
                    reason = f"a metric keeps its name: drop it, results are called {asked.name!r}"
                    raise self._statement.refused(alias, reason, item.args["alias"])
                metrics.append(asked)
            else:
                dimensions.append(self._dimension(node, alias))
        if not metrics:
            raise self._statement.refused(
                "SELECT", "it asks for no metric: add count(*), sum(x), unique(x), ..."
            )
        return dimensions, metrics, periods

    def _dimension(self, node: exp.Expression, alias: str) -> Dimension:
        extract = self._values.extract(node)
        if self._values.is_line(node):
            raise self._statement.refused(LINE, "every line would be a series of its own: name a field", node)
        if not alias and not isinstance(node, (exp.Column, exp.Dot)):
            written = self._statement.written(node)
            raise self._statement.refused(written, f"a dimension needs a name: {written}(...) AS name", node)
        name = alias or (node.expression.name if isinstance(node, exp.Dot) else node.name)
        if not alias and not re.fullmatch(NAME, name):
            reason = f"a dimension's name has a-z, 0-9, _ and - only, not {name!r}: add AS {_suggested(name)}"
            raise self._statement.refused(self._statement.written(node), reason, node)
        return self._statement.make(Dimension, node, name=name, extract=extract)

    def _grouped(self, dimensions: list[Dimension], periods: list[exp.Expression]) -> tuple[str, str]:
        """Check GROUP BY against the dimensions; returns the period and its time zone."""
        group, statement = self._select.args.get("group"), self._statement
        if group is None:
            raise statement.refused(
                "SELECT", "it has no GROUP BY: add GROUP BY period('60s') and the dimensions"
            )
        statement.only(group, "expressions")
        cut: list[exp.Anonymous] = []
        named: set[str] = set()
        for item in group.expressions:
            node = unparen(item)
            if isinstance(node, exp.Anonymous) and node.name.lower() == _PERIOD:
                cut.append(node)
                continue
            if isinstance(node, exp.Literal):
                raise statement.refused(
                    statement.written(node), "this is a place in SELECT: name the dimension", node
                )
            named.add(self._match(node, dimensions))
        for dimension in dimensions:
            if dimension.name not in named:
                raise statement.refused(
                    dimension.name, "it is selected, but not grouped by: add it to GROUP BY, or drop it"
                )
        if len(cut) != 1:
            word = "GROUP BY" if not cut else _PERIOD
            raise statement.refused(word, "results are kept by one period: add one period('60s')", *cut[1:2])
        for node in periods:
            if node != cut[0]:
                raise statement.refused(
                    _PERIOD, "it is not the period that GROUP BY has: make them equal", node
                )
        return self._period(cut[0])

    def _match(self, node: exp.Expression, dimensions: list[Dimension]) -> str:
        """The name of the dimension that an item of GROUP BY stands for."""
        alias = node.name if isinstance(node, exp.Column) and not node.table else None
        for dimension in dimensions:
            if dimension.name == alias:
                return dimension.name
        if isinstance(node, exp.Anonymous) and self._metrics.of(node) is not None:
            raise self._statement.refused(
                node.name, "a metric is computed of a group: drop it from GROUP BY", node
            )
        extract = self._values.extract(node)
        for dimension in dimensions:
            if dimension.extract == extract:
                return dimension.name
        reason = "it is grouped by, but not selected: add it to SELECT, which names the dimensions in order"
        raise self._statement.refused(self._statement.written(node), reason, node)

    def _period(self, node: exp.Anonymous) -> tuple[str, str]:
        arguments = node.expressions
        if len(arguments) not in (1, 2):
            raise self._statement.refused(
                _PERIOD, "it takes a length and perhaps a time zone: period('1d', 'Europe/Berlin')", node
            )
        zone = self._timezone or UTC
        if len(arguments) > 1:
            zone = self._values.text(arguments[1], "the time zone")
            if self._timezone not in (None, zone):
                reason = f"the task's timezone is {self._timezone!r}: say it once"
                raise self._statement.refused(zone, reason, arguments[1])
        return self._values.text(arguments[0], "the period"), zone

    def _is_call(self, node: exp.Expression, name: str) -> bool:
        return isinstance(node, exp.Anonymous) and node.name.lower() == name

    def _refused_spec(self, error: ValidationError) -> SqlRefused:
        """The refusal of the task's own rules, at the refused value if the text has it."""
        problem: Problem = explain(error)[0]
        value = error.errors(include_url=False)[0].get("input")
        if isinstance(value, str) and value in self._statement.text:
            position = self._statement.text.index(value)
            return SqlRefused(value, position, self._statement.text, problem.message)
        field = re.sub(r"^/", "", problem.pointer)
        return SqlRefused(field or "the task", 0, self._statement.text, problem.message)
