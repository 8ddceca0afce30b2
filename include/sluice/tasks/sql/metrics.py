"""The metrics that a SELECT asks for, and the one measure that they are computed of."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from sluice.metrics import UnknownMetric, metric
from sluice.tasks.extract import Extract
from sluice.tasks.spec import Measure
from sluice.tasks.sql.statement import SelectStatement
from sluice.tasks.sql.values import FORMS, ValueCompiler

_NAMES = {"stddev_pop": "stddev"}
_COUNT = "ask count(*) for the lines, missing(x) for those without a measure"
_NO_METRICS = ("split_part", "regexp_extract", "cast", "try_cast")


@dataclass(frozen=True)
class MetricRequest:
    """One metric that SELECT asks for."""

    name: str
    of: exp.Expression | None  # None: of the line itself
    node: exp.Expression


class MetricReader:
    """Reads the metrics of one statement."""

    def __init__(self, statement: SelectStatement, values: ValueCompiler) -> None:
        self._statement, self._values = statement, values

    def of(self, node: exp.Expression) -> MetricRequest | None:
        """The metric that a selected expression asks for; None if it is not a metric."""
        statement = self._statement
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):  # p99.9(x)
            call, name = node.expression, f"{node.this.name}.{node.expression.name}"
        elif isinstance(node, exp.Anonymous):
            call, name = node, node.name
        else:
            return None
        statement.only(call, "this", "expressions")
        name, arguments = name.lower(), list(call.expressions)
        name = _NAMES.get(name, name)
        if name in _NO_METRICS:
            return None
        if name == "count":
            return self._count(node, arguments)
        if name in ("percentile", "topk"):
            return self._parametric(name, node, arguments)
        self._known(name, node)
        if len(arguments) != 1:
            raise statement.refused(call.name, f"it takes one column: {name}(bytes)", node)
        return MetricRequest(name, arguments[0], node)

    def _known(self, name: str, node: exp.Expression) -> None:
        try:
            metric(name)
        except UnknownMetric as error:
            raise self._statement.refused(
                self._statement.written(node), f"{error}; a column is {FORMS}", node
            ) from None

    def _count(self, node: exp.Expression, arguments: list[exp.Expression]) -> MetricRequest:
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            self._statement.only(arguments[0])
            return MetricRequest("count", None, node)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            distinct = arguments[0]
            self._statement.only(distinct, "expressions")
            if len(distinct.expressions) == 1:
                self._known("unique", node)
                return MetricRequest("unique", distinct.expressions[0], node)
            raise self._statement.refused("DISTINCT", "of one column: make a task of each", distinct)
        raise self._statement.refused(self._statement.written(node), _COUNT, node)

    def _parametric(self, name: str, node: exp.Expression, arguments: list[exp.Expression]) -> MetricRequest:
        """percentile(x, 0.95) and topk(x, 10) as the metrics p95 and top10."""
        if len(arguments) != 2:  # noqa: PLR2004
            example = "percentile(bytes, 0.95)" if name == "percentile" else "topk(path, 10)"
            raise self._statement.refused(name, f"it takes a column and a number: {example}", node)
        parameter = self._values.number(arguments[1], "the second argument")
        if name == "percentile":
            percent = format((Decimal(parameter) * 100).normalize(), "f")
            if not 0 < Decimal(percent) < 100:  # noqa: PLR2004
                raise self._statement.refused(
                    parameter, "it takes a share between 0 and 1: 0.95", arguments[1]
                )
            asked = f"p{percent}"
        else:
            asked = f"top{parameter}"
        self._known(asked, node)
        return MetricRequest(asked, arguments[0], node)

    def measure(self, metrics: list[MetricRequest]) -> Measure | None:
        """The one measure of all metrics; None if they need none."""
        found: Extract | None = None
        kinds = {}
        for asked in metrics:
            if asked.of is None:
                continue
            extract = self._values.extract(asked.of)
            if found is not None and extract != found:
                reason = "a task has one measure, and another metric is of another column: make two tasks"
                raise self._statement.refused(self._statement.written(asked.of), reason, asked.of)
            found, kinds[asked.name] = extract, metric(asked.name).measure
        if found is None:
            return None
        # `missing` alone counts lines without a number; unique and top-k make the measure a text.
        text = "number" not in kinds.values() and set(kinds) != {"missing"}
        return Measure(**found.model_dump(), type="text" if text else "number")
