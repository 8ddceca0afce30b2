"""How one version of a task differs from another, in words and as a diff."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import yaml

from sluice.tasks.spec import TaskSpec


class ChangeAction(StrEnum):
    """What applying a task, a topic or a list does to it."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Diff:
    """What applying one spec would do; making a diff changes nothing."""

    name: str
    action: ChangeAction
    fields: tuple[str, ...]  # what is different, e.g. ("period", "metrics")
    text: str  # a unified diff of the task's YAML; empty if it is unchanged


def compare(old: TaskSpec | None, new: TaskSpec, version: int) -> Diff:
    """The difference between two specs of a task; `version` is the old one's."""
    if old == new:
        return Diff(new.name, ChangeAction.UNCHANGED, (), "")
    before, after = {} if old is None else old.document(), new.document()
    text = "\n".join(
        difflib.unified_diff(
            _lines(before),
            _lines(after),
            f"{new.name} version {version}" if old else "/dev/null",
            f"{new.name} version {version if old and new.counts_as(old) else version + 1}",
            n=2,
            lineterm="",
        )
    )
    action = ChangeAction.CHANGED if old else ChangeAction.CREATED
    return Diff(new.name, action, changed_fields(old, new), text)


def changed_fields(old: TaskSpec | None, new: TaskSpec) -> tuple[str, ...]:
    """The top-level keys of the compiled task whose values differ."""
    if old is None:
        return ()
    return tuple(name for name in TaskSpec.model_fields if getattr(old, name) != getattr(new, name))


def to_yaml(documents: list[dict[str, Any]]) -> str:
    """Documents as a file that `apply` takes."""
    return yaml.safe_dump(documents, sort_keys=False, allow_unicode=True)


def _lines(document: dict[str, Any]) -> list[str]:
    return to_yaml([document]).splitlines() if document else []
