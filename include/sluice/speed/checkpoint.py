"""Reads from Spark's checkpoint where a micro-batch ends.

Only this module reads Spark's own format. Spark writes ``offsets/<batch>`` before it runs the batch: a line
with the log's version, a line with the batch's metadata, then a line for each source. Ours has a single
source, Kafka, whose line is a JSON object {topic: {partition: offset}}.
"""

from __future__ import annotations

import json
from pathlib import Path

#: The version of Spark's offset log that `end_offsets` understands.
VERSION = "v1"
_LINES = 3  # version, metadata, the one source


class UnknownCheckpoint(RuntimeError):
    """Spark wrote its offsets in an unknown format."""


def end_offsets(checkpoint: Path, topic: str, batch_id: int) -> dict[str, int]:
    """The offset after the batch's last record, by partition. Raises UnknownCheckpoint."""
    path = checkpoint / "offsets" / str(batch_id)
    lines = path.read_text().splitlines()
    if len(lines) != _LINES or lines[0] != VERSION:
        raise UnknownCheckpoint(
            f"{path} begins with {lines[:1]} and has {len(lines)} lines, not {VERSION!r} and {_LINES}: "
            "this Spark is not the one that requirements.txt pins; install that one"
        )
    return {partition: int(offset) for partition, offset in json.loads(lines[-1])[topic].items()}
