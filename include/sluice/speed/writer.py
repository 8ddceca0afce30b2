"""The writer of one topic's state: what a batch changes, and the commit that makes it true."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pyarrow as pa
from kafka.errors import KafkaError

from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import TasksFailed, Version
from sluice.engine.wire import FOUND_ARROW
from sluice.speed.doubles import gather
from sluice.speed.laps import Laps
from sluice.speed.ledger import ByteLedger
from sluice.speed.offsets import Lost, TopicOffsets, TopicReplaced, starting_offsets
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.routes import Routes
from sluice.state.blocks import Changes, merge_into_blocks, periods
from sluice.state.state import State
from sluice.storage.commits import Commit, CommitLog, DayLines, LedgerRow, Pointer, TopicClaim

log = logging.getLogger(__name__)

EPOCH = date(1970, 1, 1)
# HBase's timestamps are in ms. A backfill writes its results a millisecond after the newest commit, and that
# must be before the next commit.
COMMITS_APART = timedelta(milliseconds=2)

#: Runs one pass over a batch. Its arguments are the work for a partition, and then those of `doubles.Pass`:
#: the known intervals, and how the lines are dealt out.
RunPass = Callable[[PartitionPass, pa.Table, bool], Gathered]


@dataclass(frozen=True)
class Counted:
    """What a batch holds, adds to the ledger and changes in the state; not committed yet."""

    found: Gathered
    ledger: ByteLedger
    changes: Changes


def nothing() -> Counted:
    """A batch without lines."""
    changes = Changes({}, [], partials_schema().empty_table())
    return Counted(Gathered.of(FOUND_ARROW.empty_table()), ByteLedger(), changes)


class Writer:
    """Counts and commits the batches of one topic, each built on the commit before.

    It is used by one thread, and lives from one start of the query to the next. If a commit fails, nobody
    knows whether it was made, so the writer must not be used again: the next writer reads the committed
    state, under a token of its own.
    """

    def __init__(
        self, commits: CommitLog, claim: TopicClaim, state: State, offsets: TopicOffsets, key: bytes
    ) -> None:
        self.token = secrets.token_hex(8)
        self.seq = 0
        self.committed_at = datetime.fromtimestamp(0, UTC)
        self.position: dict[str, int] = {}
        self.versions: set[Version] = set()  # those that the newest commit counted
        self._commits = commits
        self._claim = claim
        self._state = state
        self._offsets = offsets
        self._key = key  # for the records' identities
        self._topic_id = ""
        self._ledger = ByteLedger()
        self._recent: list[tuple[str, str]] = []  # the files that the newest batch touched

    def open(self) -> list[Lost]:
        """Claim the topic and read its newest commit; returns the offsets that Kafka lost.

        Raises FencedOut while another writer holds the topic, TopicMissing, TopicReplaced.
        """
        self._claim.take()
        head = self._commits.head()
        bounds = self._offsets.bounds()
        if head is not None:
            if head.topic_id != bounds.topic_id:
                detail = f"its id is {bounds.topic_id}, not {head.topic_id}"
                raise TopicReplaced(self._commits.topic, detail)
            self.seq, self.committed_at = head.seq, head.committed_at
        self._topic_id = bounds.topic_id
        self.position, lost = starting_offsets(self._commits.topic, head.end if head else {}, bounds)
        self._ledger = ByteLedger.from_rows(vars(row) for row in self._commits.ledger())
        self.versions = self._commits.open_versions()
        return lost

    def close(self) -> None:
        """Release the topic."""
        self._claim.release()
        with suppress(KafkaError, OSError):
            self._offsets.close()

    def ends(self) -> dict[str, int]:
        """The offset after each partition's last record. Raises TopicReplaced, TopicMissing."""
        return {str(at): end for at, end in self._offsets.now().items()}

    def count(self, plan: EnginePlan, routes: Routes | None, run: RunPass, laps: Laps) -> Counted:
        """What the batch holds and changes. Raises TasksFailed, which names the tasks to leave out."""
        work = PartitionPass(plan, self._commits.topic, ByteLedger().to_table(), self._key, routes)
        found, ledger = gather(partial(run, work), self._ledger, self._recent)
        laps.lap("pass")
        if found.failed:
            raise TasksFailed(found.failed)
        layouts = self._state.layouts(set(periods(found.partials)[0]))
        changes = merge_into_blocks(found.partials, layouts, self._state.load, plan.limits.series)
        laps.lap("merge")
        return Counted(found, ledger, changes)

    def write_blocks(self, changes: Changes) -> list[Pointer]:
        """Write the batch's blocks to HBase, as columns that nobody reads before the commit."""
        return self._state.write(self.seq + 1, self.token, changes.blocks)

    def commit(
        self, end: dict[str, int], versions: Collection[Version], counted: Counted, blocks: list[Pointer]
    ) -> Commit:
        """Make the batch true in one transaction. Raises FencedOut if another writer was first."""
        changes = counted.changes
        commit = replace(
            self._commit(end, versions, counted),
            blocks=blocks,
            dropped=[block.row for block in changes.removed],
            built_on=self._state.built_on(changes.blocks, changes.removed),
        )
        self._commits.append(commit)
        self.seq, self.position = commit.seq, dict(commit.end)
        self.committed_at, self.versions = commit.committed_at, set(commit.tasks)
        self._recent = counted.ledger.files() or self._recent
        self._ledger.update(counted.ledger)
        self._state.committed(blocks, changes.blocks, changes.removed)
        return commit

    def prune(self) -> None:
        """Delete the columns that this commit replaced."""
        self._state.prune()

    def show(self) -> int | None:
        """Show the position to Kafka's lag tools, and return the lag (None if it is unknown).

        The lag is how many Kafka records are still to come; each has one line or more.
        """
        try:
            self._offsets.commit(self.position)
            ends = self._offsets.ends()
        except KafkaError as error:
            log.warning("topic %s: offsets not shown to Kafka: %s", self._commits.topic, error)
            return None
        return sum(max(0, end - self.position.get(str(at), 0)) for at, end in ends.items())

    def _commit(self, end: dict[str, int], versions: Collection[Version], counted: Counted) -> Commit:
        now = datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        found = counted.found
        return Commit(
            seq=self.seq + 1,
            token=self.token,
            topic_id=self._topic_id,
            # Later than every commit before, even if the clocks disagree: it orders the results in HBase.
            committed_at=max(now, self.committed_at + COMMITS_APART),
            start={partition: self.position.get(partition, 0) for partition in end},
            end=end,
            tasks=sorted(versions),
            counts=found.counts,
            ledger=[LedgerRow(**row) for row in counted.ledger.to_rows()],
            opened=sorted(set(versions) - self.versions),
            closed=sorted(self.versions - set(versions)),
            days=[_day_lines(row) for row in found.days.to_pylist()],
            dead_letters=found.dead_letters.to_pylist(),
        )


def _day_lines(row: dict[str, int]) -> DayLines:
    day = EPOCH + timedelta(days=row["day"])
    return DayLines(day, row["partition"], row["lines"], row["last_offset"])
