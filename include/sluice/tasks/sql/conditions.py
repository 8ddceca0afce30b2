"""WHERE: conditions joined by AND, each a filter on one column."""

from __future__ import annotations

import re

from sqlglot import exp

from sluice.tasks.extract import Extract, Filter, FilterMode
from sluice.tasks.spec import Condition
from sluice.tasks.sql.statement import SelectStatement, SqlRefused
from sluice.tasks.sql.values import ValueCompiler, unparen

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
_ONE_COLUMN = (
    "a condition is about one column: OR joins values of one (x = 'a' OR x = 'b'); for anything else, "
    "make a task of each side"
)
_ONE_SIDE = (
    "a side of OR is one condition, and here one is two that must both hold: write the values that are left "
    "(x IN ('a', 'b')), or make a task of each side"
)
_PATTERNS = (exp.Like, exp.ILike, exp.RegexpLike)
_REGEXP_LIKE = ("regexp_like", "rlike", "regexp")


class Conditions:
    """Compiles the WHERE of one statement."""

    def __init__(self, statement: SelectStatement, values: ValueCompiler) -> None:
        self._statement, self._values = statement, values

    def of(self, node: exp.Expression, negated: bool = False) -> list[Condition]:
        """The conditions that a boolean expression, or its opposite, stands for."""
        node = unparen(node)
        if isinstance(node, exp.Not):
            inner = unparen(node.this)
            return (
                [self._not_null(inner, negated)] if isinstance(inner, exp.Is) else self.of(inner, not negated)
            )
        if isinstance(node, (exp.And, exp.Or)):
            self._statement.only(node, "this", "expression")
            if isinstance(node, exp.And) != negated:  # NOT (a OR b) is NOT a AND NOT b
                return self.of(node.this, negated) + self.of(node.expression, negated)
            return [self._either(node, negated)]
        extract, filter_ = self._filter(node, negated)
        return [self._statement.make(Condition, node, extract=extract, filter=filter_)]

    def _either(self, node: exp.Expression, negated: bool) -> Condition:
        """The white list for a OR b, or NOT (a AND b), if both name values of the same column."""
        word = "OR" if isinstance(node, exp.Or) else "AND"
        joined = [self.of(node.this, negated), self.of(node.expression, negated)]
        sides = [side for conditions in joined for side in conditions]
        if len({side.extract for side in sides}) > 1:
            raise self._statement.refused(word, _ONE_COLUMN, node.expression)
        if len(sides) > len(joined):
            raise self._statement.refused(word, _ONE_SIDE, node.expression)
        if any(side.filter.mode != FilterMode.WHITE or side.filter.values is None for side in sides):
            reason = "OR joins values of a column; of patterns, sets and opposites write one: RLIKE 'a|b'"
            raise self._statement.refused(word, reason, node.expression)
        values = dict.fromkeys(value for side in sides for value in side.filter.values or ())
        filter_ = self._statement.make(Filter, node, mode=FilterMode.WHITE, values=tuple(values))
        return Condition(extract=sides[0].extract, filter=filter_)

    def _filter(self, node: exp.Expression, negated: bool) -> tuple[Extract, Filter]:
        named: dict[str, object]
        negated ^= bool(node.args.get("negate"))  # sqlglot's NOT LIKE
        if isinstance(node, (exp.EQ, exp.NEQ)):
            self._statement.only(node, "this", "expression")
            column, value = unparen(node.this), unparen(node.expression)
            if isinstance(column, exp.Literal) and not isinstance(value, exp.Literal):
                column, value = value, column
            negated ^= isinstance(node, exp.NEQ)
            named = {"values": (self._value(value),)}
        elif isinstance(node, exp.In):
            if not (node.expressions or node.args.get("field") or node.args.get("query")):
                raise self._statement.refused("IN", "the list is empty, so no line would be counted", node)
            self._statement.only(node, "this", "expressions", "field", "query")
            column, named = node.this, self._in(node)
        elif isinstance(node, (exp.Like, exp.ILike)):
            self._statement.only(node, "this", "expression", "negate")
            self._not_quantified(node.expression)
            column = node.this
            named = _like(self._values.text(node.expression, "the pattern"), isinstance(node, exp.ILike))
        elif isinstance(node, exp.RegexpLike):
            self._statement.only(node, "this", "expression", "negate")
            column, named = node.this, {"regex": self._values.text(node.expression, "the pattern")}
        elif isinstance(node, exp.Anonymous):
            column, named = self._call(node)
        else:
            raise self._other(node)
        extract = self._values.extract(column)
        mode = FilterMode.BLACK if negated else FilterMode.WHITE
        at = node.expression if isinstance(node, _PATTERNS) else node
        return extract, self._statement.make(Filter, at, mode=mode, **named)

    def _in(self, node: exp.In) -> dict[str, object]:
        if node.args.get("query") is not None:
            raise self._statement.unsupported(node.args["query"])
        field = node.args.get("field")
        if field is None:
            return {"values": tuple(dict.fromkeys(self._value(value) for value in node.expressions))}
        if isinstance(field, exp.Anonymous) and field.name.lower() == "set":
            if len(field.expressions) != 1:
                raise self._statement.refused(
                    "SET", "it takes the name of a list: IN SET('eu_offices')", field
                )
            return {"set": self._values.text(field.expressions[0], "the name of a list")}
        raise self._statement.refused(
            "IN", "it takes values or a list: IN ('a', 'b') or IN SET('name')", field
        )

    def _call(self, node: exp.Anonymous) -> tuple[exp.Expression, dict[str, object]]:
        self._statement.only(node, "this", "expressions")
        name, arguments = node.name.lower(), node.expressions
        if name == "in_set" or name in _REGEXP_LIKE:
            if len(arguments) != 2:  # noqa: PLR2004
                raise self._statement.refused(node.name, "it takes two arguments: a column and a text", node)
            kind, what = ("set", "the name of a list") if name == "in_set" else ("regex", "the pattern")
            return arguments[0], {kind: self._values.text(arguments[1], what)}
        reason = (
            "this is no condition: use =, <>, IN, LIKE, RLIKE, in_set(x, 'name') or regexp_like(x, '...')"
        )
        raise self._statement.refused(node.name, reason, node)

    def _value(self, node: exp.Expression) -> str:
        """A value to compare with; a whole number stands for its digits."""
        node = unparen(node)
        if isinstance(node, exp.Literal) and re.fullmatch("0|[1-9][0-9]*", str(node.this)):
            return str(node.this)
        if isinstance(node, (exp.Column, exp.Literal)):
            return self._values.text(node, "a value")
        self._not_quantified(node)
        word = self._statement.written(node)
        raise self._statement.refused(word, "a column is compared with a text in single quotes", node)

    def _not_quantified(self, node: exp.Expression) -> None:
        if isinstance(node, (exp.Any, exp.All, exp.Subquery, exp.Select)):
            raise self._statement.unsupported(node)

    def _not_null(self, node: exp.Is, negated: bool) -> Condition:
        """x IS NOT NULL: anything that was extracted."""
        if negated or not isinstance(node.expression, exp.Null):
            raise self._statement.unsupported(node)
        extract = self._values.extract(node.this)
        return Condition(extract=extract, filter=Filter(mode=FilterMode.WHITE, regex="^"))

    def _other(self, node: exp.Expression) -> SqlRefused:
        if isinstance(node, (exp.Column, exp.Boolean, exp.Literal)):
            reason = "this is no condition: compare a column with a value, e.g. status = '500'"
            return self._statement.refused(self._statement.written(node), reason, node)
        return self._statement.unsupported(node)


def _like(pattern: str, ignore_case: bool) -> dict[str, object]:
    """LIKE as a filter: % is anything, _ is one character, all else stands for itself."""
    if not ignore_case and "%" not in pattern and "_" not in pattern:
        return {"values": (pattern,)}
    wild = {"%": ".*", "_": "."}
    translated = "".join(wild.get(c) or _META.sub(r"\\\g<0>", c) for c in pattern)
    return {"regex": f"(?{'i' if ignore_case else ''}s)^{translated}$"}
