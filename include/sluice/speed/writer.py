"""The writer of one topic's state: what a batch changes, and the commit that makes it true."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from kafka.errors import KafkaError

from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import TasksFailed, Version
from sluice.engine.wire import FOUND
from sluice.runtime.crash_points import crash_point
from sluice.runtime.positions import PartitionLog
from sluice.speed.doubles import gather
from sluice.speed.laps import Laps
from sluice.speed.ledger import ByteLedger
from sluice.speed.offsets import Lost, TopicOffsets, starting_positions
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.routes import Routes
from sluice.speed.samples import Samples
from sluice.speed.state_pass import StatePass, StateStores
from sluice.state.changed_periods import KnownPeriods, changed, outgrown
from sluice.state.dealing import Dealing
from sluice.storage.hbase import STATE, HBase
from sluice.storage.tables import tallies
from sluice.storage.tables.commits import Commit, CommitLog, DayLines, LedgerRow, TopicClaim
from sluice.storage.tables.epochs import CommittedColumns, Epochs, PeriodKey, StatePeriod
from sluice.storage.tables.recounts import BlockDamage

log = logging.getLogger(__name__)

EPOCH = date(1970, 1, 1)
# HBase's timestamps are in ms. A backfill writes its results a millisecond after the newest commit, and that
# must be before the next commit.
COMMITS_APART = timedelta(milliseconds=2)

#: Runs one attempt at a batch: the first stage, how its findings are dealt out, the second stage, and whether
#: the lines are dealt out by identity.
RunAttempt = Callable[[PartitionPass, Dealing, StatePass, bool], Gathered]


@dataclass(frozen=True)
class CountedBatch:
    """What a batch holds, adds to the ledger and changes in the state; not committed yet."""

    found: Gathered
    ledger: ByteLedger
    periods: list[StatePeriod]

    @property
    def blocks(self) -> int:
        """How many blocks were written."""
        return sum(self.found.stated.column("blocks").to_pylist())


def nothing() -> CountedBatch:
    """A batch without lines."""
    return CountedBatch(Gathered.of(FOUND.empty_table()), ByteLedger(), [])


class StateChanged(RuntimeError):
    """A block that is not in HBase is not missed any more: retention or another writer took its period."""

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(f"topic {topic!r}: {why}, and its period has changed: the batch is counted again")


class Writer:
    """Counts and commits the batches of one topic, each built on the commit before.

    It is used by one thread, and lives from one start of the query to the next. If a commit fails, nobody
    knows whether it was made, so the writer must not be used again: the next writer reads the committed
    state, under a token of its own.

    A token names an attempt. When a batch is counted again, the columns of the attempt before have its number
    too, and would be committed with it if they had the same token.
    """

    def __init__(
        self,
        commits: CommitLog,
        claim: TopicClaim,
        stores: StateStores,
        offsets: TopicOffsets,
        *,
        tasks: int,
    ) -> None:
        self.token = secrets.token_hex(8)
        self.seq = 0
        self.committed_at = datetime.fromtimestamp(0, UTC)
        self.position: dict[str, int] = {}
        self.versions: set[Version] = set()  # those that the newest commit counted
        self._commits = commits
        self._claim = claim
        self._stores = stores
        self._width = tasks  # how many tasks merge a batch into the state
        self._known = KnownPeriods()
        self._epochs = Epochs()
        self._attempted = 0  # the commit that `token` was last used for
        self._outgrown: list[tuple[bytes, bytes]] = []  # rows and columns that nobody reads any more
        self._offsets = offsets
        self._ledger = ByteLedger()
        self._samples = Samples({})
        self._recent: list[tuple[str, str]] = []  # the files that the newest batch touched

    def open(self) -> list[Lost]:
        """Claim the topic and read its newest commit; returns the offsets that Kafka lost.

        Raises FencedOut while another writer holds the topic, TopicMissing, KafkaError.
        """
        self._claim.take()
        head = self._commits.head()
        bounds = self._offsets.bounds()
        if head is not None:
            self.seq, self.committed_at = head.seq, head.committed_at
        self._epochs = self._commits.epochs()
        self.position, lost = starting_positions(head.end if head else {}, bounds)
        self._ledger = ByteLedger.from_rows(vars(row) for row in self._commits.ledger())
        self.versions = self._commits.open_versions()
        self._samples = Samples(self._commits.sampled())
        return lost

    def close(self) -> None:
        """Release the topic."""
        self._claim.release()
        with suppress(KafkaError, OSError):
            self._offsets.close()

    def ends(self) -> dict[str, int]:
        """The position after each partition's last record. Raises TopicMissing, KafkaError."""
        return self._offsets.now()

    @property
    def logs(self) -> Mapping[int, PartitionLog]:
        """Each partition's log, as `ends` saw it last."""
        return self._offsets.logs

    def count(
        self, plan: EnginePlan, routes: Routes | None, run: RunAttempt, laps: Laps, *, small: bool = False
    ) -> CountedBatch:
        """Count the batch, and write the blocks that it changes. A small batch has one task of the state.

        They are columns that nobody reads before the commit. Raises TasksFailed, which names the tasks to
        leave out.
        """

        def attempt(known: pa.Table, dealt: bool) -> Gathered:
            work = PartitionPass(
                replace(plan, sampled=self._samples.complete), self._commits.topic, known, routes
            )
            spread = {} if small else self._known.spread()
            merging = self._merging(plan, routes, frozenset(spread))
            return run(work, self._dealing(spread, small=small), merging, dealt)

        while True:
            found, ledger = gather(attempt, self._ledger, self._recent)
            laps.lap("pass")
            if found.failed:
                raise TasksFailed(found.failed)
            if found.damaged.num_rows:
                self.forget(_set_aside(self._stores, self._commits.topic, found.damaged))
                continue
            periods, late = changed(found.stated, self.seq + 1)
            if not late:
                return CountedBatch(found, ledger, periods)
            log.info("topic %s: %d periods are too large: counted again", self._commits.topic, len(late))
            self._known.widen(late)

    def forget(self, periods: Iterable[PeriodKey]) -> None:
        """Forget periods that have no state any more: they begin anew with the next attempt."""
        self._known.forget(periods)

    def commit(self, end: dict[str, int], versions: Collection[Version], counted: CountedBatch) -> Commit:
        """Make the batch true in one transaction.

        Raises FencedOut if another writer was first, LogMoved if the records may be others by now, and
        PeriodsGone: then the batch may be counted again.
        """
        self._offsets.check_topic()
        commit = self._commit(end, versions, counted)
        self._commits.append(commit)
        self.seq, self.position = commit.seq, dict(commit.end)
        self.committed_at, self.versions = commit.committed_at, set(commit.tasks)
        self._epochs = self._epochs.then(commit.seq, commit.token)
        self._samples.committed(counted.found.tallies, commit.skipped)
        self._recent = counted.ledger.files() or self._recent
        self._ledger.update(counted.ledger)
        self._known.committed(counted.periods, outgrown(counted.found.stated))
        self._outgrown = [(row["row"], row["column"]) for row in counted.found.outgrown.to_pylist()]
        return commit

    def prune(self, hbase: HBase) -> None:
        """Delete the blocks whose layout the newest commit replaced; retention finds those left behind."""
        some, self._outgrown = self._outgrown, []
        columns: dict[bytes, list[bytes]] = {}
        for row, column in some:
            columns.setdefault(row, []).append(column)
        hbase.delete(STATE, columns.items())

    def show(self) -> int | None:
        """Show the position to Kafka's lag tools, and return the lag (None if it is unknown).

        The lag is how many Kafka records are still to come; each has one line or more.
        """
        try:
            return self._offsets.show(self.position)
        except KafkaError as error:
            log.warning("topic %s: offsets not shown to Kafka: %s", self._commits.topic, error)
            return None

    def _dealing(self, spread: Mapping[PeriodKey, int], *, small: bool) -> Dealing:
        if small:
            return Dealing(1)
        return Dealing(self._width, spread, self._known.homes(self._width))

    def _merging(self, plan: EnginePlan, routes: Routes | None, spread: Collection[PeriodKey]) -> StatePass:
        """The second stage of a new attempt at the next commit."""
        if self._attempted == self.seq + 1:
            self.token = secrets.token_hex(8)
        self._attempted = self.seq + 1
        return StatePass(
            stores=self._stores,
            topic=self._commits.topic,
            seq=self.seq + 1,
            token=self.token,
            readable=CommittedColumns(self.seq, self._epochs),
            series=plan.limits.series,
            periods=self._known.all(),
            spread=spread,
            large=self._known.large(),
            routed=frozenset(routes.tasks) if routes is not None else frozenset(),
        )

    def _commit(self, end: dict[str, int], versions: Collection[Version], counted: CountedBatch) -> Commit:
        now = datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        found = counted.found
        return Commit(
            seq=self.seq + 1,
            token=self.token,
            topic_id=self._offsets.topic_id,
            # Later than every commit before, even if the clocks disagree: it orders the results in HBase.
            committed_at=max(now, self.committed_at + COMMITS_APART),
            start={partition: self.position.get(partition, 0) for partition in end},
            end=end,
            tasks=sorted(versions),
            counts=found.counts,
            ledger=[LedgerRow(**row) for row in counted.ledger.to_rows()],
            opened=sorted(set(versions) - self.versions),
            closed=sorted(self.versions - set(versions)),
            days=[day_lines(row) for row in found.days.to_pylist()],
            dead_letters=found.dead_letters.to_pylist(),
            tallies=tallies.rows(found.tallies.to_pylist()),
            skipped=self._samples.wanted(tallies.rows(found.skipped.to_pylist())),
            periods=counted.periods,
            read_at=self._offsets.read_at,
        )


def _set_aside(stores: StateStores, topic: str, damaged: pa.Table) -> set[PeriodKey]:
    """Let periods with damaged blocks begin anew with the next attempt; a rebuild counts what came before.

    Raises StateChanged if they are others by now.
    """
    found = [damage_of(row) for row in damaged.to_pylist()]
    gone = stores.recounts(topic).set_aside(found)
    if not gone:
        raise StateChanged(topic, found[0].why)
    for each in found:
        log.error("topic %s: %s: its period is set aside", topic, each.why)
    crash_point("set_aside")
    return gone


def damage_of(row: dict[str, Any]) -> BlockDamage:
    """A row of DAMAGED."""
    why = row.pop("why")
    period = StatePeriod(**row)
    return BlockDamage(period.key, why, period)


def day_lines(row: dict[str, int]) -> DayLines:
    """A row of `Gathered.days` as a commit has it."""
    day = EPOCH + timedelta(days=row["day"])
    return DayLines(day, row["partition"], row["lines"], row["last_offset"])
