"""One SELECT as sqlglot parses it, and refusals that show the place in its text.

Only the forms that the compiler names are accepted. Every other word of SQL is refused (`only`,
`unsupported`), no matter how sqlglot parses it, so nothing that is not understood is silently left out.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError
from sqlglot import Dialect, exp, parser, tokens
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import TokenType

from sluice.tasks.problem import explain
from sluice.tasks.spec import MAX_SQL
from sluice.tasks.sql.reasons import REASONS
from sluice.tasks.storable import HALF

Made = TypeVar("Made", bound=BaseModel)

#: SET in `IN SET('name')` and `unique(x)` are functions here, not the start of a statement or a constraint.
_KEYWORDS = {w: kind for w, kind in tokens.Tokenizer.KEYWORDS.items() if w not in ("SET", "UNIQUE")}


_NO_CHARACTER = "this character cannot be stored: remove it"
TOO_DEEP = "it is nested too deep: a few brackets are enough, and x IN ('a', 'b') stands for many OR"


class SqlRefused(ValueError):
    """A text that is not a task: the word that it fails at, its place, and why."""

    def __init__(self, word: str, position: int, text: str, reason: str) -> None:
        self.word, self.position, self.reason = word, position, reason
        before = text[:position]
        self.line, self.column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
        super().__init__(f"{word} (line {self.line}, column {self.column}): {reason}")


class _Dialect(Dialect):
    """Standard SQL in which every function is just a name; `compile` knows which ones exist."""

    class Tokenizer(tokens.Tokenizer):
        KEYWORDS = _KEYWORDS

    class Parser(parser.Parser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}


class SelectStatement:
    """The text of one SELECT, its tokens and its tree. Raises `SqlRefused` for other texts."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_SQL:
            reason = (
                f"{len(text)} characters, {MAX_SQL} are allowed: keep long lists as a set, IN SET('name')"
            )
            raise SqlRefused("the text", 0, text, reason)
        if "\0" in text:
            raise SqlRefused("NUL", text.index("\0"), text, _NO_CHARACTER)
        if half := HALF.search(text):
            raise SqlRefused("half a surrogate pair", half.start(), text, _NO_CHARACTER)
        dialect = _Dialect()
        try:
            self.tokens = dialect.tokenize(text)
        except SqlglotError:
            raise SqlRefused("the text", 0, text, "a quote or a comment is not closed: close it") from None
        self._check_single()
        self.select = self._parse(dialect)

    def refused(self, word: str, reason: str, node: exp.Expression | None = None) -> SqlRefused:
        """A refusal of `word` at or before `node`; without a node, where the word first stands."""
        if node is not None and word.upper() not in self.text.upper():  # FROM a, b is a JOIN
            word = self.written(node)
        return SqlRefused(word, self._find(word, node), self.text, reason)

    def unsupported(self, node: exp.Expression) -> SqlRefused:
        """A refusal of a node whose kind does not compile where it stands."""
        word, reason = REASONS.get(node.key, (self.written(node), "this does not compile to a task here"))
        return self.refused(word, reason, node)

    def only(self, node: exp.Expression, *allowed: str) -> None:
        """Refuse the node if it has any part besides those allowed."""
        for part, value in node.args.items():
            if not value or part in allowed:
                continue
            first = value[0] if isinstance(value, list) else value
            at = first if isinstance(first, exp.Expression) else None
            kind = "fetch" if isinstance(at, exp.Fetch) else part  # FETCH stands where LIMIT does
            word, reason = REASONS.get(kind, (part.upper().strip("_"), "this does not compile to a task"))
            raise self.refused(word, reason, at)

    def make(self, kind: type[Made], node: exp.Expression, **fields: Any) -> Made:
        """Make a part of the spec; if the part's own rules refuse it, refuse `node`."""
        try:
            return kind(**fields)
        except ValidationError as error:
            raise self.refused(self.written(node), explain(error)[0].message, node) from None

    def written(self, node: exp.Expression) -> str:
        """The node's first word as the text has it."""
        start = self._start(node)
        found = next((t for t in self.tokens if t.start == start), None)
        return self.text[found.start : found.end + 1] if found else node.sql()

    def _find(self, word: str, node: exp.Expression | None) -> int:
        places = [t.start for t in self.tokens if self.text[t.start : t.end + 1].upper() == word.upper()]
        start = None if node is None else self._start(node)
        if not places:  # the word is more, or less, than a token
            found = self.text.upper().find(word.upper())
            return found if found >= 0 else start or 0
        if start is None:
            return places[0]
        return max((p for p in places if p <= start), default=places[0])

    @staticmethod
    def _start(node: exp.Expression) -> int | None:
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        return min(starts, default=None)

    def _check_single(self) -> None:
        while self.tokens and self.tokens[-1].token_type == TokenType.SEMICOLON:
            self.tokens.pop()
        if not self.tokens:
            raise SqlRefused("the text", 0, self.text, "there is no SELECT in it: write one")
        for number, token in enumerate(self.tokens):
            if token.token_type == TokenType.SEMICOLON:
                following = self.tokens[number + 1]
                raise SqlRefused(
                    following.text,
                    following.start,
                    self.text,
                    "a task is one SELECT: drop what follows the ;",
                )
        first = self.tokens[0]
        word = first.text.upper()
        if word == "WITH":
            raise SqlRefused(word, first.start, self.text, REASONS["with_"][1])
        if first.token_type != TokenType.SELECT:
            raise SqlRefused(
                first.text,
                first.start,
                self.text,
                "a task is a SELECT, nothing else; nothing is ever executed",
            )

    def _parse(self, dialect: Dialect) -> exp.Select:
        try:
            (parsed,) = dialect.parser().parse(self.tokens, self.text)
        except ParseError as error:
            found = error.errors[0] if error.errors else {}
            line, column = found.get("line") or 1, found.get("col") or 1
            starts = [t for t in self.tokens if t.line == line and t.col == column]
            token = starts[0] if starts else self.tokens[-1]
            word = self.text[token.start : token.end + 1]
            raise SqlRefused(word, token.start, self.text, "this is no SQL that is understood here") from None
        except RecursionError:
            raise SqlRefused("the text", 0, self.text, TOO_DEEP) from None
        except Exception as error:
            # Users' text reaches the parser. If the parser fails, the text is refused and nothing crashes.
            reason = f"this is no SQL that is understood here ({type(error).__name__})"
            raise SqlRefused("the text", 0, self.text, reason) from None
        if not isinstance(parsed, exp.Select):
            if parsed is None:
                raise SqlRefused("the text", 0, self.text, "there is no SELECT in it: write one")
            word, reason = REASONS.get(parsed.key, (self.tokens[0].text, "a task is one SELECT"))
            raise SqlRefused(word, self._find(word, None), self.text, reason)
        return parsed
