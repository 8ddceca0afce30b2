"""Gaps of an archive: a recovery closes them before it makes the byte ledger of the archive's lines.

Whoever closed one later would bring lines to positions that both layers have passed, and that the ledger does
not have. Front-ends would send them again, and a rebuild could count both copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sluice.archive.file import ArchivedPartition
from sluice.archive.repair import repair
from sluice.archive.service import record_loss
from sluice.archive.verification import Lacking, Verified, verify
from sluice.runtime.settings import Settings
from sluice.transmission.topics import TopicMissing

Gap = tuple[ArchivedPartition, Lacking]
#: Gaps that an error names.
SHOWN = 3


class ArchiveHasGaps(ValueError):
    """The archive lacks offsets, and Kafka does not have them any more."""

    def __init__(self, gaps: Iterable[Gap]) -> None:
        named = [f"{place}, offsets {gap.first} to {gap.next - 1}" for place, gap in gaps]
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        super().__init__(
            f"the archive has gaps that Kafka cannot fill: {'; '.join(named[:SHOWN])}{more}. Once a recovery "
            "has counted, nothing can be put there any more. Bring the files back, and repeat the recovery; "
            "or give `--declare-lost`: these lines then count only if the front-ends still have them"
        )


def close(
    settings: Settings, topic: str, *, declare_lost: bool, tell: Callable[[str], None]
) -> tuple[Verified, ...]:
    """Close the gaps of an indexed topic's archive, from Kafka or as declared losses; what is there then.

    Raises ArchiveHasGaps, and what the stores raise.
    """
    found = tuple(verify(settings, topic))
    if not any(gaps(topic, found)):
        return found
    try:
        for each in repair(settings, topic, deep=False):
            if not each.why_not:
                tell(f"{topic}/{each.partition}: {each.lines:,} lines from Kafka, offset {each.first} on")
    except TopicMissing:
        pass  # it was deleted, and the archive has what came before
    left = list(gaps(topic, verify(settings, topic)))
    if left and not declare_lost:
        raise ArchiveHasGaps(left)
    for place, gap in left:
        tell(record_loss(settings, place, gap.first))
    return tuple(verify(settings, topic))


def gaps(topic: str, found: Iterable[Verified]) -> Iterator[Gap]:
    """Where no file stands, of all that was verified."""
    for each in found:
        place = ArchivedPartition(topic, each.topic_id, each.partition)
        yield from ((place, lacking) for lacking in each.lacking if not lacking.damaged)
