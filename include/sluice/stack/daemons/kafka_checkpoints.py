"""Kafka's checkpoint files, of which a power cut left nothing whole: with one that it cannot read it ends.

Four of them only save it work, or begin again where its logs begin. The fifth says which leader's records lie
where in a log; what counts lines rests on it (ADR 0079), and Kafka begins it anew without a word if it is
empty. Each batch in a log says its leader, so that file is made again of the log.

What cannot be made of anything else stays an error: `meta.properties`, `partition.metadata`, and the vote of
the controller (`quorum-state`). Each is written rarely, and synced before it has its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from sluice.runtime.files import settle, write_whole
from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog

#: With what the name of a file begins that was set aside. It lies in Kafka's folder, where Kafka reads
#: folders, and no files that it does not know.
ASIDE = "lost-"
#: What Kafka does without each of them.
_WITHOUT = {
    "recovery-point-offset-checkpoint": "Kafka reads all of its logs at this start",
    "replication-offset-checkpoint": "Kafka takes each log up to its end",
    "log-start-offset-checkpoint": "records that were deleted from a log's oldest file are there again",
    "cleaner-offset-checkpoint": "Kafka cleans its own topics from their beginning",
}
#: The fifth.
EPOCHS = "leader-epoch-checkpoint"
#: An entry of the four, and one of the fifth.
_OFFSET_ENTRY, EPOCH_ENTRY = re.compile(r"\S+ \d+ \d+"), re.compile(r"\d+ \d+")
#: How a batch begins: its first offset, its length without these two, its leader's epoch, its format.
_BATCH, _BEFORE_LENGTH, _FORMAT = Struct(">qiib"), 12, 2


def mend(settings: Settings) -> None:
    """Let Kafka start although checkpoints of its logs are torn. It must not run."""
    data = settings.home / "data" / "kafka"
    for name, then in _WITHOUT.items():
        path = data / name
        if path.exists() and entries(path, _OFFSET_ENTRY) is None:
            _set_aside(data, path, then)
    for folder in sorted({log.parent for log in data.glob("*/*.log")}):
        path = folder / EPOCHS
        known = entries(path, EPOCH_ENTRY) if path.exists() else []
        if known:
            continue
        made = list(epochs(folder))
        if known is None:
            _set_aside(data, path, "it is made again of the log's batches")
        if made:
            write_whole(path, "".join(f"{line}\n" for line in ("0", len(made), *made)))


def entries(path: Path, entry: re.Pattern[str]) -> list[str] | None:
    """The entries of a checkpoint file; None if they are not what Kafka wrote, readable or not."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text:
        return []
    lines = text.split("\n")
    ended, found = not lines.pop(), lines[2:]  # each line has an end
    whole = ended and lines[:2] == ["0", str(len(found))] and all(map(entry.fullmatch, found))
    return found if whole else None


def epochs(folder: Path) -> Iterator[str]:
    """Each leader's epoch of which a log has records, and its first offset, as Kafka writes them."""
    newest = -1
    for log in sorted(folder.glob("*.log")):
        for offset, epoch in _batches(log):
            if epoch > newest:
                newest = epoch
                yield f"{epoch} {offset}"


def _batches(log: Path) -> Iterator[tuple[int, int]]:
    """The first offset and the epoch of each batch, up to what is none, which Kafka cuts off."""
    file = os.open(log, os.O_RDONLY)
    try:
        at, size = 0, os.fstat(file).st_size
        while at + _BATCH.size <= size:
            offset, length, epoch, form = _BATCH.unpack(os.pread(file, _BATCH.size, at))
            at += _BEFORE_LENGTH + length
            if form != _FORMAT or length < _BATCH.size or at > size:
                return
            yield offset, epoch
    finally:
        os.close(file)


def _set_aside(data: Path, path: Path, then: str) -> None:
    kept = data / (ASIDE + "-".join(path.relative_to(data).parts))
    path.rename(kept)
    settle(path.parent)
    DaemonLog("kafka")(f"{path.relative_to(data)} is not whole, and is in {kept} now: {then}")
