"""What was tried with a dead letter, and what would make it count."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.letters.explanation import readers, remedy, tried
from sluice.tasks.topic_spec import TopicSpec
from tests.letters.made import letter

SHOP = TopicSpec.model_validate(
    {"name": "shop", "format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
)
LOGS = TopicSpec()


@pytest.mark.parametrize(
    ("found", "topic", "said"),
    [
        (letter(), LOGS, "No time in brackets"),
        (letter(line=b'{"at": "soon"}'), SHOP, "field 'at': 'soon' is no time of the format 'iso8601'"),
        (letter(line=b"{}"), SHOP, "nothing is there"),
        (letter(reason="forged"), LOGS, "whose proof is wrong"),
        (letter(reason="too_large", unreadable="too_large: 9 GB"), LOGS, "too_large: 9 GB"),
        (letter(reason="line over 4 bytes"), LOGS, "7 bytes: line over 4 bytes"),
    ],
)
def test_what_was_tried(found: object, topic: TopicSpec, said: str) -> None:
    assert said in tried(found, topic)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "`sluice deadletters replay logs --into TOPIC`"),
        ({"reason": "forged"}, "Nothing here"),
        ({"reason": "undecodable", "unreadable": "undecodable: x"}, "must send it again"),
        ({"reason": "line over 4 bytes"}, "higher limits.line_bytes (7 or more)"),
        ({"reason": "dimension over 1000 bytes: path"}, "for good"),
    ],
)
def test_what_would_make_it_count(changed: dict[str, str], said: str) -> None:
    assert said in remedy(letter(**changed))


def test_topics_that_read_a_line_are_named() -> None:
    line = b'{"at": "2015-05-17T10:05:03Z"}'
    assert readers(line, [LOGS, SHOP]) == {"shop": datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)}
