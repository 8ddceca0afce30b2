"""The base of all parts of a task's or topic's description, and how names are written."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

NAME = "^[a-z][a-z0-9_-]*$"
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]

MAX_DESCRIPTION = 500
#: Line breaks, what steers a terminal, and what turns the direction of the text behind it.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def _one_plain_line(text: str) -> str:
    if found := _CONTROL.search(text):
        raise ValueError(f"{found[0]!r} in a description: write it in one line, without control characters")
    return text


#: A sentence for people, shown in lists, pages and the comments of tables.
Description = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_DESCRIPTION, strip_whitespace=True),
    AfterValidator(_one_plain_line),
]


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
