"""The base of all parts of a task's or topic's description, and how names are written."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

NAME = "^[a-z][a-z0-9_-]*$"
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]


def _no_internal_topic(name: str) -> str:
    if name.startswith("_"):
        raise ValueError(
            f"topic {name!r} begins with _, as Kafka's own topics do: choose a name that does not"
        )
    return name


TopicName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=200),
    AfterValidator(_no_internal_topic),
]


class Model(BaseModel):
    """Plain data without coercion or unknown keys; frozen, so it can be a dictionary's key."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
