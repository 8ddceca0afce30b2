"""A topic in Kafka, and the way in which both layers read it: each line's first copy counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np

from sluice.engine.count import count
from sluice.engine.parse import event_time
from sluice.engine.plan import EnginePlan
from sluice.runtime.days import DAY_MS
from sluice.runtime.sections import Limits
from sluice.speed.ledger import ByteLedger
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_identity import identify
from sluice.transmission.record_writer import LineRecord
from tests.messages import KEY, Message, decoded

SHOP = TopicSpec.model_validate(
    {"name": "shop", "format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
)


class SpeedLayer:
    """Takes records; it fails before the one of the number `fails_after`."""

    def __init__(self, fails_after: int | None = None) -> None:
        self.records: list[LineRecord] = []
        self.fails_after = fails_after

    def write(self, records: Sequence[LineRecord]) -> None:
        for each in records:
            if self.fails_after is not None and len(self.records) == self.fails_after:
                raise ConnectionError("killed")
            self.records.append(each)

    def read(self) -> tuple[dict[bytes, date], ByteLedger]:
        """The lines that count, each with its day, and the ledger. No line is dead, and none counts twice."""
        messages = [Message(n, each.line, each.headers(KEY)) for n, each in enumerate(self.records)]
        ledger = ByteLedger()
        batch, ends = identify(decoded(0, messages), "shop")
        new = ledger.claim(*(batch.column(name) for name in ("host", "src_file", "src_offset")), ends)
        plan = EnginePlan.of([], Limits(), SHOP)
        assert count(batch, plan).reason.null_count == len(batch)
        ms, _ = event_time(batch.column("line"), SHOP)
        found: dict[bytes, date] = {}
        for number in np.flatnonzero(new).tolist():
            line = batch.column("line")[number].as_py()
            assert line not in found
            found[line] = date.fromordinal(date(1970, 1, 1).toordinal() + int(ms[number]) // DAY_MS)
        return found, ledger

    def counted(self) -> tuple[int, ByteLedger]:
        """How many lines count, and the ledger."""
        found, ledger = self.read()
        return len(found), ledger
