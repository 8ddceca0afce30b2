"""The files of a partition form one chain: each begins where the one before it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, order=True)
class Link:
    """One file's offsets, half open, and where it lies."""

    first: int
    next: int
    path: str


class BrokenChain(RuntimeError):
    """A partition's files do not form a chain; nothing is written after them."""

    def __init__(self, topic: str, partition: int, problem: str, remedy: str) -> None:
        super().__init__(f"archive of topic {topic!r}, partition {partition}: {problem}. {remedy}")
        self.topic, self.partition = topic, partition


class GapInArchive(BrokenChain):
    """Offsets between two files are in neither."""

    def __init__(self, topic: str, partition: int, before: Link, after: Link) -> None:
        super().__init__(
            topic,
            partition,
            f"offsets {before.next} to {after.first - 1} are missing between {before.path} and {after.path}",
            f"`sluice archive repair {topic}` takes them from Kafka, if it still has them. Else restore the "
            "files from a snapshot; if they are gone for good, say so with "
            f"`python jobs/archiver.py --topic {topic} --declare-lost {partition}:{before.next}`",
        )
        self.offsets = before.next, after.first


class OverlapInArchive(BrokenChain):
    """Two files hold the same offsets."""

    def __init__(self, topic: str, partition: int, before: Link, after: Link) -> None:
        super().__init__(
            topic,
            partition,
            f"offsets {after.first} to {min(before.next, after.next) - 1} are both in {before.path} "
            f"and in {after.path}",
            "The archiver cannot have written both: move the one that does not belong there (restored, "
            "copied or written by hand) out of the directory",
        )


class EmptyLink(BrokenChain):
    """A file that covers no offset: the file that begins there could not claim its name."""

    def __init__(self, topic: str, partition: int, link: Link) -> None:
        super().__init__(
            topic,
            partition,
            f"{link.path} covers no offset (first {link.first}, next {link.next})",
            "The archiver writes no such file: move it out of the directory",
        )


def check(topic: str, partition: int, links: Sequence[Link]) -> int:
    """Check the chain; returns the position after the newest file (0 without one).

    The oldest file may begin anywhere. Raises BrokenChain, which names the first fault.
    """
    for fault in faults(topic, partition, links):
        raise fault
    return max(links).next if links else 0


def faults(topic: str, partition: int, links: Sequence[Link]) -> Iterator[BrokenChain]:
    """Each place where the files do not form one chain."""
    ordered = sorted(links)
    for link in ordered:
        if link.next <= link.first:
            yield EmptyLink(topic, partition, link)
    for before, after in pairwise(ordered):
        if before.next < after.first:
            yield GapInArchive(topic, partition, before, after)
        if before.next > after.first:
            yield OverlapInArchive(topic, partition, before, after)
