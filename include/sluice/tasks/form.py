"""A task's document as the fields of a form, and back.

A field's name is its place in the document, as in a problem's pointer: `dimensions/0/extract/index`. An empty
field says nothing, and a text stands as it was typed, except for these:

- `index` and `group` are whole numbers;
- `metrics` may be given several times, with several names in each;
- `filter/values` has a value a line;
- a tab in a `delimiter` is written as \\t, and a backslash as two;
- `grouping` is written as in YAML.

A form cannot hold every document, a value with a line break for example. `fits` tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from sluice.tasks.document import read_yaml
from sluice.tasks.problem import TasksRefused

_TEXTS = ("name", "description", "topic", "period", "timezone", "grouping", "sql")
_CUT = ("field", "delimiter", "index", "regex", "group")
_FILTER = ("mode", "values", "regex", "set")
_NUMBERS = frozenset({"index", "group"})
_ROW = re.compile(
    rf"(where|dimensions)/([0-9]{{1,3}})/(name|extract/({'|'.join(_CUT)})|filter/({'|'.join(_FILTER)}))"
)
_WRITTEN = {"\\": "\\\\", "\t": "\\t", "\r": "\\r", "\n": "\\n"}
_READ = {written: sign for sign, written in _WRITTEN.items()}


def from_form(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The document that the fields say; fields of other names are left out.

    It may be wrong in every way that a document can be wrong. Rows are numbered anew, in their order.
    """
    given: dict[str, str] = {}
    metrics: list[str] = []
    rows: dict[str, dict[int, dict[str, str]]] = {"where": {}, "dimensions": {}}
    for name, text in fields:
        if name == "metrics":
            metrics += re.split(r"[\s,]+", text)
        elif match := _ROW.fullmatch(name):
            rows[match[1]].setdefault(int(match[2]), {})[match[3]] = text
        else:
            given[name] = text
    document: dict[str, Any] = {key: given[key] for key in _TEXTS if given.get(key)}
    if "grouping" in document:
        document["grouping"] = _yaml(document["grouping"])
    for part, numbered in rows.items():
        if numbered:
            document[part] = [_row(numbered[number], part) for number in sorted(numbered)]
    measure = _extract({key: given.get(f"measure/{key}", "") for key in _CUT})
    if measure:
        kind = given.get("measure/type", "")
        document["measure"] = {**measure, "type": kind} if kind else measure
    if named := [name for name in dict.fromkeys(metrics) if name]:
        document["metrics"] = named
    return document


def to_form(document: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a document; those that are left out are empty. See `fits`."""
    made = {key: str(document[key]) for key in _TEXTS if document.get(key)}
    if isinstance(document.get("grouping"), Mapping):
        made["grouping"] = yaml.safe_dump(document["grouping"], default_flow_style=True, width=10_000).strip()
    for part in ("where", "dimensions"):
        for number, row in enumerate(_list(document.get(part))):
            made |= {f"{part}/{number}/{name}": text for name, text in _fields_of(row).items()}
    measure = document.get("measure")
    if isinstance(measure, Mapping):
        made |= {f"measure/{name}": text for name, text in _cut_of(measure).items()}
        made |= {"measure/type": str(measure["type"])} if measure.get("type") else {}
    if isinstance(document.get("metrics"), list | tuple):
        made["metrics"] = " ".join(map(str, document["metrics"]))
    return made


def fits(document: Mapping[str, Any]) -> bool:
    """Whether a form can hold the document as it is."""
    return "sql" not in document and from_form(to_form(document).items()) == document


def _row(given: Mapping[str, str], part: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": given["name"]} if given.get("name") else {}
    made["extract"] = _extract({key: given.get(f"extract/{key}", "") for key in _CUT})
    filter_ = {key: given[f"filter/{key}"] for key in _FILTER if given.get(f"filter/{key}")}
    if "values" in filter_:
        values = [line for line in re.split(r"\r?\n", filter_["values"]) if line]
        filter_ = {key: values if key == "values" else text for key, text in filter_.items()}  # type: ignore[misc]
    if filter_ or part == "where":
        made["filter"] = filter_
    return made


def _extract(given: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {key: text for key, text in given.items() if text}
    for key in _NUMBERS & made.keys():
        made[key] = int(made[key]) if re.fullmatch(r"[0-9]{1,9}", made[key]) else made[key]
    if "delimiter" in made:
        made["delimiter"] = re.sub(r"\\[\\trn]", lambda match: _READ[match[0]], made["delimiter"])
    return made


def _fields_of(row: Any) -> dict[str, str]:
    made = {"extract/field": ""}  # or an empty row would be gone
    if not isinstance(row, Mapping):
        return made
    made |= {"name": str(row["name"])} if row.get("name") else {}
    made |= {f"extract/{key}": text for key, text in _cut_of(row.get("extract")).items()}
    filter_ = row.get("filter")
    if isinstance(filter_, Mapping):
        for key in _FILTER:
            if key in filter_:
                value = filter_[key]
                made[f"filter/{key}"] = (
                    "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
                )
    return made


def _cut_of(extract: Any) -> dict[str, str]:
    if not isinstance(extract, Mapping):
        return {}
    made = {key: str(extract[key]) for key in _CUT if extract.get(key) is not None}
    if "delimiter" in made:
        made["delimiter"] = "".join(_WRITTEN.get(sign, sign) for sign in made["delimiter"])
    return made


def _list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else []


def _yaml(text: str) -> Any:
    try:
        return read_yaml(text)
    except TasksRefused:
        return text
