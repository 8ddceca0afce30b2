"""Column expressions of dimensions, conditions and metrics, compiled to extractions."""

from __future__ import annotations

import re

from sqlglot import exp

from sluice.tasks.extract import Extract
from sluice.tasks.sql.reasons import REASONS
from sluice.tasks.sql.statement import SelectStatement
from sluice.tasks.topic_spec import LINE, TopicSpec

WHOLE_LINE = {"regex": "(?s)^.*$", "group": 0}
#: What counts as a number: `Decimal` computes exactly with this many digits.
_DECIMAL = re.compile(r"(?=.{1,21}$)([0-9]+\.?[0-9]*|\.[0-9]+)")
FORMS = "a field, split_part(line, ' ', 9) or regexp_extract(x, 'pattern', 1)"


class ValueCompiler:
    """Compiles column expressions of one statement that reads `topic`."""

    def __init__(self, statement: SelectStatement, topic: str, spec: TopicSpec | None) -> None:
        self._statement, self._topic, self._spec = statement, topic, spec

    def extract(self, node: exp.Expression) -> Extract:
        """The extraction that a column expression stands for."""
        node = unparen(node)
        parts = self._parts(node)
        fields = self._call(node) if not parts else self._field(parts, node)
        extract = self._statement.make(Extract, node, **fields)
        problem = self._spec.unknown_field(extract) if self._spec else None
        if problem:
            raise self._statement.refused(extract.field or "", problem, node)
        return extract

    def is_line(self, node: exp.Expression) -> bool:
        """Whether the expression is the whole line."""
        return self._parts(unparen(node)) == (LINE,)

    def text(self, node: exp.Expression, what: str) -> str:
        """The text in quotes; `what` says in an error what it is for."""
        node = unparen(node)
        if not (isinstance(node, exp.Literal) and node.is_string):
            hint = " (double quotes name a column: use single ones)" if isinstance(node, exp.Column) else ""
            word = self._statement.written(node)
            raise self._statement.refused(word, f"{what} is a text in single quotes{hint}", node)
        return str(node.this)

    def number(self, node: exp.Expression, what: str) -> str:
        """The decimal number as it is written; `what` says in an error what it is for."""
        node = unparen(node)
        if not (isinstance(node, exp.Literal) and not node.is_string):
            raise self._statement.refused(self._statement.written(node), f"{what} is a number", node)
        written = str(node.this)
        if not _DECIMAL.fullmatch(written):
            reason = f"{what} is a number in at most 20 digits, without an exponent: 0.95"
            raise self._statement.refused(written, reason, node)
        return written

    def _parts(self, node: exp.Expression) -> tuple[str, ...]:
        """The names in a dotted column; empty for any other expression."""
        if isinstance(node, exp.Dot):
            left = self._parts(node.this)
            right = node.expression
            return (*left, right.name) if left and isinstance(right, exp.Identifier) else ()
        if not isinstance(node, exp.Column):
            return ()
        self._statement.only(node, "this", "table", "db", "catalog")
        if any(not isinstance(part, exp.Identifier) for part in node.parts):
            raise self._statement.unsupported(node.this)
        names = tuple(part.name for part in node.parts)
        return names[1:] if len(names) > 1 and names[0] == self._topic else names

    def _field(self, parts: tuple[str, ...], node: exp.Expression) -> dict[str, object]:
        if parts == (LINE,):
            return dict(WHOLE_LINE)
        if len(parts) > 1 and any("." in part or part.startswith("/") for part in parts):
            escaped = (part.replace("~", "~0").replace("/", "~1") for part in parts)
            return {"field": "".join(f"/{part}" for part in escaped)}
        return {"field": ".".join(parts)}

    def _call(self, node: exp.Expression) -> dict[str, object]:
        if not isinstance(node, exp.Anonymous):
            if isinstance(node, exp.Literal):
                word = self._statement.written(node)
                raise self._statement.refused(word, f"a column is expected, not a value: {FORMS}", node)
            raise self._statement.unsupported(node)
        self._statement.only(node, "this", "expressions")
        name, arguments = node.name.lower(), node.expressions
        if name == "split_part":
            return self._split_part(node, arguments)
        if name == "regexp_extract":
            return self._regexp_extract(node, arguments)
        if name in ("cast", "try_cast"):
            raise self._statement.refused(*REASONS["cast"], node)
        raise self._statement.refused(node.name, f"this function is not known here: use {FORMS}", node)

    def _split_part(self, node: exp.Expression, arguments: list[exp.Expression]) -> dict[str, object]:
        if len(arguments) != 3:  # noqa: PLR2004
            raise self._statement.refused(
                node.name,
                "it takes the line, the delimiter and a number, from 1: split_part(line, ' ', 9)",
                node,
            )
        if not self.is_line(arguments[0]):
            raise self._statement.refused(
                self._statement.written(arguments[0]),
                "split_part cuts the whole line: use split_part(line, ...), or regexp_extract() on a field",
                arguments[0],
            )
        index = self.number(arguments[2], "the place of the part, from 1,")
        if not re.fullmatch("[1-9][0-9]{0,5}", index):
            raise self._statement.refused(index, "parts are counted from 1", arguments[2])
        return {"delimiter": self.text(arguments[1], "the delimiter"), "index": int(index) - 1}

    def _regexp_extract(self, node: exp.Expression, arguments: list[exp.Expression]) -> dict[str, object]:
        if len(arguments) not in (2, 3):
            raise self._statement.refused(
                node.name,
                "it takes a value, a pattern and a group: regexp_extract(path, '^/([^/]*)', 1)",
                node,
            )
        if self.is_line(arguments[0]):
            fields: dict[str, object] = {}
        else:
            fields = self.extract(arguments[0]).model_dump(exclude_none=True)
        if "regex" in fields:
            raise self._statement.refused(
                node.name,
                "a pattern is applied to what a pattern extracted: write one pattern for both",
                node,
            )
        fields["regex"] = self.text(arguments[1], "the pattern")
        if len(arguments) == 3:  # noqa: PLR2004
            group = self.number(arguments[2], "the group")
            if not re.fullmatch("[0-9]{1,4}", group):
                raise self._statement.refused(
                    group, "a group is a whole number: 0 is the whole match", arguments[2]
                )
            fields["group"] = int(group)
        return fields


def unparen(node: exp.Expression) -> exp.Expression:
    """The node without the brackets around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
