"""A task while somebody writes it: what the form or its YAML says, what is wrong, what it does with lines."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from sluice.engine.places import pieces
from sluice.engine.preview import Preview, StepPreview, preview
from sluice.engine.suggest import NothingThere, Suggestion, suggest
from sluice.runtime.sections import Limits
from sluice.tasks import Problem, TaskSpec, TasksRefused, TopicSpec, parse_documents
from sluice.tasks.changes import to_yaml
from sluice.tasks.document import read_yaml
from sluice.tasks.form import fits, from_form, to_form
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from sluice_airflow.console.forms import Form

#: Lines that a draft is tried on, and how many of them show pieces to point at.
LINES, POINTED = 50, 12
#: Suggestions that are shown: for exactly the piece, and for wider texts around it.
EXACT, WIDE = 4, 2
#: A line of more than LONGEST_LINE characters is left out; all lines together have at most MOST_CHARACTERS.
LONGEST_LINE, MOST_CHARACTERS = 16_384, 200_000
PARTS = ("where", "dimensions")
_ROW = re.compile(r"/(where|dimensions)/([0-9]+)")
#: Characters of a name that the editor makes, without a number that makes it a free one.
_NAME = 50
_STAND_IN = {"name": "preview", "period": "1m", "topic": "logs"}


@dataclass(frozen=True)
class Pointed:
    """A piece of a line that somebody pointed at, and what could be made of it."""

    line: int
    begin: int
    end: int
    suggestions: Sequence[Suggestion] = ()


@dataclass
class Draft:
    """A task in the editor.

    document: the task as written so far. lines: what it is tried on. base: the tag of the task that is
    changed, empty for a new one. origin: its name.
    """

    document: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    base: str = ""
    origin: str = ""
    yaml: str = ""
    problems: list[Problem] = field(default_factory=list)
    spec: TaskSpec | None = None  # once nothing is wrong
    topic: TopicSpec = field(default_factory=TopicSpec)
    tried: Preview | None = None
    tried_dimensions: Sequence[str] = ()
    tried_metrics: Sequence[str] = ()
    steps: Mapping[str, StepPreview] = field(default_factory=dict)  # by pointer
    pointed: Pointed | None = None
    only_yaml: bool = False
    unread: bool = False  # the YAML is no task, so the document is not of it

    @property
    def form(self) -> Mapping[str, str]:
        """The document's fields."""
        return to_form(self.document)

    @property
    def rows(self) -> Mapping[str, int]:
        """How many conditions and dimensions there are."""
        found = {part: self.document.get(part) for part in PARTS}
        return {part: len(rows) if isinstance(rows, list) else 0 for part, rows in found.items()}

    @property
    def metrics(self) -> Sequence[str]:
        """The names of the metrics, also of those that do not exist."""
        return self.form.get("metrics", "").split()

    def wrong(self, pointer: str) -> list[str]:
        """What is wrong at the field, or below it."""
        return [
            p.message for p in self.problems if p.pointer == pointer or p.pointer.startswith(f"{pointer}/")
        ]

    def wrong_itself(self, pointer: str) -> list[str]:
        """What is wrong at just this place, such as a row that lacks something."""
        return [p.message for p in self.problems if p.pointer == pointer]

    def cut(self, number: int) -> list[tuple[str, str]]:
        """A line as texts, each with its stretch "line:begin:end" if somebody can point at it, else empty."""
        text, made, at = self.lines[number], list[tuple[str, str]](), 0
        for begin, end in pieces(text, self.topic):
            if at < begin:
                made.append((text[at:begin], ""))
            made.append((text[begin:end], f"{number}:{begin}:{end}"))
            at = end
        return [*made, *([(text[at:], "")] if at < len(text) else [])]


def of_form(given: Form) -> Draft:
    """The draft that a form holds."""
    document, written = from_form(given.pairs), given.get("yaml").replace("\r\n", "\n")
    draft = Draft(
        document,
        [line for line in re.split(r"\r?\n", given.get("lines")) if line][:LINES],
        given.get("base"),
        given.get("origin"),
        written,
    )
    typed = ("do", "yaml") in given.pairs or given.get("written") == "yaml"
    if typed:
        try:
            draft.document = of_yaml(written)
        except TasksRefused as refused:
            draft.problems, draft.only_yaml = list(refused.problems), given.get("written") == "yaml"
            draft.unread = True
            return draft
    edit(draft, given.get("do"))
    use(draft, given.get("use"))
    if not typed or given.get("use") or ":" in given.get("do"):
        draft.yaml = to_yaml([draft.document])
    return draft


def of_yaml(text: str) -> dict[str, Any]:
    """The document of one task. Raises TasksRefused."""
    found = read_yaml(text)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if not isinstance(found, dict):
        raise TasksRefused([Problem("", "one task is expected: its keys and values, e.g. name: hits")])
    return found


def edit(draft: Draft, wish: str) -> None:
    """Add, remove or move a row: `add:dimensions`, `remove:where/0`, `up:dimensions/1`."""
    action, _, at = wish.partition(":")
    part, _, number = at.partition("/")
    if part not in PARTS:
        return
    rows = _rows(draft, part)
    index = int(number) if re.fullmatch(r"[0-9]{1,3}", number) else len(rows)
    if action == "add":
        rows.append({"extract": {}, **({"filter": {"mode": "white"}} if part == "where" else {})})
    elif action == "remove" and index < len(rows):
        del rows[index]
    elif action == "up" and 0 < index < len(rows):
        rows[index - 1], rows[index] = rows[index], rows[index - 1]
    if not rows:
        del draft.document[part]


def use(draft: Draft, wish: str) -> None:
    """Make a suggestion a dimension, a condition or the measure: JSON of `to`, `extract`, `name`, `value`."""
    try:
        wanted = json.loads(wish) if wish else {}
        to, extract, name, value = (wanted[key] for key in ("to", "extract", "name", "value"))
    except (ValueError, TypeError, KeyError):
        return
    if to == "dimensions":
        rows = _rows(draft, to)
        taken = [row.get("name") for row in rows if isinstance(row, dict)]
        free = next(n for n in (name, *(f"{name}_{k}" for k in range(2, 99))) if n not in taken)
        rows.append({"name": free, "extract": extract})
    elif to == "where":
        filter_ = {"mode": "white", "values": [value]}
        _rows(draft, to).append({"extract": extract, "filter": filter_})
    elif to == "measure":
        draft.document["measure"] = {**extract, "type": "number"}
        metrics = draft.document.setdefault("metrics", [])
        if isinstance(metrics, list) and all(each == "count" for each in metrics):
            metrics += ["sum", "avg"]


def _rows(draft: Draft, part: str) -> list[Any]:
    """The rows of a part, to be changed; YAML may have something else there, such as nothing."""
    rows = draft.document.get(part)
    if not isinstance(rows, list):
        rows = draft.document[part] = []
    return rows


def name_it(draft: Draft, taken: Collection[str]) -> None:
    """Name a task after its topic and its first dimension, unless somebody named it: `logs_by_status`."""
    rows = draft.document.get("dimensions")
    if draft.document.get("name") or not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return
    words = f"{draft.document.get('topic', 'logs')}_by_{rows[0].get('name', '')}".lower()
    name = re.sub(r"[^a-z0-9]+", "_", words).lstrip("0123456789_").rstrip("_")[:_NAME]
    tries = (name, *(f"{name}_{number}" for number in range(2, 1_000)))
    draft.document = {"name": next(each for each in tries if each not in taken), **draft.document}
    draft.yaml = to_yaml([draft.document])


def check(draft: Draft, tasks: TaskStore, topics: TopicStore, limits: Limits) -> None:
    """Find what is wrong, and try the draft on its lines."""
    if not draft.problems:
        try:
            (draft.spec,) = parse_documents([draft.document])
            tasks.resolved(draft.spec)
        except TasksRefused as refused:
            draft.spec = None
            draft.problems = [Problem(p.pointer.removeprefix("/0"), p.message) for p in refused.problems]
    draft.only_yaml = draft.only_yaml or not fits(draft.document)
    draft.topic = _topic(draft, topics)
    if draft.lines:
        _try(draft, tasks, limits)


def point(draft: Draft, wish: str) -> None:
    """Suggest what could be made of the stretch "line:begin:end"."""
    match = re.fullmatch(r"([0-9]{1,3}):([0-9]{1,6}):([0-9]{1,6})", wish)
    if match is None:
        return
    line, begin, end = (int(each) for each in match.groups())
    try:
        found = suggest(_bytes(draft.lines), line, begin, end, draft.topic)
    except NothingThere:
        return
    exact = [each for each in found if (each.begin, each.end) == (begin, end)]
    wide = [each for each in found if (each.begin, each.end) != (begin, end)]
    draft.pointed = Pointed(line, begin, end, [*exact[:EXACT], *wide[:WIDE]])


def readable(lines: Sequence[bytes]) -> list[str]:
    """Those of a topic's lines that a form can hold, as text."""
    found, size = [], 0
    for line in lines:
        text = line.decode(errors="replace").replace("\0", "\ufffd").rstrip("\r")
        size += len(text)
        if text and len(text) <= LONGEST_LINE and size <= MOST_CHARACTERS:
            found.append(text)
    return found


def _topic(draft: Draft, topics: TopicStore) -> TopicSpec:
    try:
        if draft.spec is not None:
            return topics.get(draft.spec.topic)
        named = TopicSpec(name=draft.document.get("topic", "logs"))
        return topics.get(named.name)
    except ValidationError:
        return TopicSpec()


def _try(draft: Draft, tasks: TaskStore, limits: Limits) -> None:
    """Try the draft on its lines; without those rows that are wrong, if some are."""
    spec, kept = draft.spec, dict[str, str]()
    if spec is None:
        spec, kept = _without_wrong(draft)
    if spec is None:
        return
    try:
        resolved, topic = tasks.resolved(spec)
    except TasksRefused:
        return
    draft.tried = preview(resolved, topic, _bytes(draft.lines), limits)
    draft.tried_dimensions = [each.name for each in spec.dimensions]
    draft.tried_metrics = spec.metrics
    draft.steps = {kept.get(step.pointer, step.pointer): step for step in draft.tried.steps}


def _without_wrong(draft: Draft) -> tuple[TaskSpec | None, dict[str, str]]:
    """A task of what is right so far, and the places of its rows in the draft.

    Rows that only lack a right name get one.
    """
    named = {p.pointer.removesuffix("/name") for p in draft.problems if p.pointer.endswith("/name")}
    others = [p.pointer for p in draft.problems if not p.pointer.endswith("/name")]
    bad = {match[0] for pointer in others if (match := _ROW.match(pointer))}
    places: dict[str, str] = {}
    document: dict[str, Any] = {**draft.document}
    for part in PARTS:
        found = draft.document.get(part)
        rows = found if isinstance(found, list) else []
        right = [n for n in range(len(rows)) if f"/{part}/{n}" not in bad]
        places |= {f"/{part}/{now}": f"/{part}/{was}" for now, was in enumerate(right)}
        names = {n: {"name": f"unnamed-{n}"} for n in right if f"/{part}/{n}" in named}
        document[part] = [rows[n] | names[n] if n in names else rows[n] for n in right]
    for key in {p.pointer.split("/")[1] for p in draft.problems if p.pointer} - {*PARTS}:
        document.pop(key, None)
    if any(not p.pointer or p.pointer.startswith(("/metrics", "/measure")) for p in draft.problems):
        document = {**document, "metrics": ["count"], "measure": None}
    document = _STAND_IN | {"metrics": ["count"]} | document
    try:
        (spec,) = parse_documents([document])
    except TasksRefused:
        return None, {}
    return spec, places


def _bytes(lines: Sequence[str]) -> list[bytes]:
    return [line.encode("utf-8", "surrogatepass") for line in lines]
