"""Online against offline at one cut, and the publication of what agrees.

1. The day must still be what was computed: a line beyond the cut, or a task version that changed below it,
   makes it *superseded*. That is no failure; the day is marked, and the next nightly run computes it again.
2. Every result of every task version of the day is compared, HBase's online cell with Hive; and the day's
   lines at each hop. If something differs, 1 is asked again: the line may have come meanwhile.
3. Great Expectations tests both sides of the same results by itself, and writes Data Docs. If its verdict is
   another one, the reconciliation fails. The outcome becomes a row in Hive.
4. Only if all agrees, the offline results are written beside the online ones as final, and their accumulators
   as final blocks. Then one transaction notes the day as published and points to these blocks. Dying in
   between repeats the writes.

A period of several days is compared once all of them are computed and counted online. Until then it waits
in a table (`open_periods`), and each later reconciliation of the topic compares it if it can.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.runtime import holds
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import open_periods
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.days import Day, Days
from sluice.storage.tables.erasures import Erasures
from sluice.storage.tables.reconciled import ComparisonOutcome
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.period import LONGEST

if TYPE_CHECKING:
    from sluice.quality.day_comparison import DayComparison
    from sluice.results.compare import ShownDifference

log = logging.getLogger(__name__)

RECORD = """
INSERT INTO reconciliations (topic, day, run_at, cut, outcome, compared, differing, details)
VALUES (%(topic)s, %(day)s, %(run_at)s, %(cut)s, %(outcome)s, %(compared)s, %(differing)s, %(details)s)
"""


class NotComputed(LookupError):
    """The batch layer has not computed the day."""

    def __init__(self, topic: str, day: date) -> None:
        super().__init__(f"{topic} {day} was never computed: run the nightly batch for that day")


class ReconciliationFailed(RuntimeError):
    """Online and offline do not agree; nothing was published."""


class DocsDisagree(RuntimeError):
    """Great Expectations and the comparison came to different verdicts: a fault of this program."""


@dataclass(frozen=True)
class ReconcileOutcome:
    """How a reconciliation ended."""

    topic: str
    day: date
    run_at: datetime
    cut: Mapping[str, int]
    outcome: ComparisonOutcome
    compared: int  # results
    differing: int  # of them
    message: str
    differences: tuple[ShownDifference, ...] = ()  # the first of them

    def check(self) -> None:
        """Raise ReconciliationFailed if the layers differ."""
        if self.outcome == ComparisonOutcome.DIFFERS:
            raise ReconciliationFailed(self.message)


def check_verdicts(found: DayComparison, failed: Sequence[str], docs: Path) -> None:
    """Raise DocsDisagree if the comparison and Great Expectations do not come to the same verdict.

    `failed`: the expectations that do not hold. `docs`: where Data Docs are.
    """
    if bool(failed) != found.agrees:
        return
    verdicts = ("agree", "do not agree") if found.agrees else ("do not agree", "agree")
    reasons = "\n".join(failed or [found.message()]).replace("\n", "\n  ")
    raise DocsDisagree(
        f"{found.day.topic} {found.day.day}: by the comparison the layers {verdicts[0]}, by Great "
        f"Expectations they {verdicts[1]}, so nothing was published; see {docs}\n  {reasons}"
    )


def speed_passed(settings: Settings, topic: str, day: date, cut: Mapping[str, int]) -> bool:
    """Whether the speed layer has counted everything below the cut, and shows it in HBase.

    It does not while a period that may touch the day is counted again: its results are out of date then. Nor
    does it while lines of the topic are being erased, which one layer may lack before the other.
    """
    begin, database = begin_ms(day), engine(settings)
    if not CommitLog(database, topic).passed(cut):
        return False
    if Erasures(database).unfinished(topic):
        return False
    return not Recounts(database, topic).touch(begin, begin + DAY_MS, LONGEST * 1000)


def reconcile(settings: Settings, topic: str, day: date, cut: Mapping[str, int]) -> ReconcileOutcome:
    """Compare the day as computed up to `cut`, record the outcome, publish what agrees.

    Call it once `speed_passed`. It waits while a disk is nearly full. Raises NotComputed, and what its stores
    raise while a daemon is away.
    """
    holds.wait(settings.home, Hold.LAYERS, log.warning)
    book = Days(engine(settings), topic)
    with book.locked(day):
        computed = book.get(day)
        if computed is None:
            raise NotComputed(topic, day)
        why = _superseded(book, computed, cut)
        return (
            _superseded_outcome(settings, computed, cut, why) if why else _compare(settings, book, computed)
        )


def _superseded(book: Days, computed: Day, cut: Mapping[str, int]) -> str | None:
    if computed.cut != dict(cut):
        return "the day was computed again, up to another cut"
    return book.superseded(computed)


def _superseded_outcome(settings: Settings, day: Day, cut: Mapping[str, int], why: str) -> ReconcileOutcome:
    message = f"{day.topic} {day.day} is superseded: {why}"
    superseded, now = ComparisonOutcome.SUPERSEDED, datetime.now(UTC)
    outcome = ReconcileOutcome(day.topic, day.day, now, dict(cut), superseded, 0, 0, message)
    _record(settings, outcome, {})
    return outcome


def _compare(settings: Settings, book: Days, day: Day) -> ReconcileOutcome:
    from sluice.quality.day_comparison import compare_day
    from sluice.quality.docs import data_docs
    from sluice.quality.expectations import validate
    from sluice.quality.final_blocks import Publication
    from sluice.quality.publish import publish
    from sluice.state.finals import sweep
    from sluice.storage.hbase import HBase
    from sluice.storage.hive import Hive
    from sluice.storage.tables.finals import Finals

    found = compare_day(settings, book, day)
    if not found.agrees and (why := _superseded(book, day, day.cut)):
        return _superseded_outcome(settings, day, day.cut, why)
    failed = validate(settings, day.topic, day.day, found.frame, found.hops)
    check_verdicts(found, failed, data_docs(settings))
    outcome = ReconcileOutcome(
        topic=day.topic,
        day=day.day,
        run_at=datetime.now(UTC),
        cut=day.cut,
        outcome=ComparisonOutcome.AGREES if found.agrees else ComparisonOutcome.DIFFERS,
        compared=len(found.frame),
        differing=found.differing,
        message=found.message(),
        differences=found.differences,
    )
    open_periods.add(book.engine, day.topic, found.open_periods)
    if found.agrees:
        finals = Finals(book.engine, day.topic)
        with HBase.of(settings) as hbase, Hive(settings) as hive:
            publish(hbase, found.frame)
            publication = Publication(settings, finals, day, hive, hbase)
            finals.publish(day.day, day.cut, publication.write(found.compared))
            sweep(hbase, finals)
        open_periods.remove(book.engine, day.topic, found.closed_periods)
    _record(settings, outcome, _details(found))
    return outcome


def _details(found: DayComparison) -> dict[str, object]:
    return {
        "differences": [asdict(difference) for difference in found.differences],
        "hops": [asdict(hop) for hop in found.hops],
        "tasks": found.by_task,
        "skipped": found.skipped,
        "open_periods": len(found.open_periods),
    }


def _record(settings: Settings, outcome: ReconcileOutcome, details: Mapping[str, object]) -> None:
    """Append the outcome to the history in Hive, and note it as the day's last one."""
    from sluice.storage.hive import Hive, Value
    from sluice.storage.postgres import engine
    from sluice.storage.tables import reconciled

    row: dict[str, Value] = {
        "topic": outcome.topic,
        "day": outcome.day.isoformat(),
        "run_at": outcome.run_at,
        "cut": json.dumps(dict(outcome.cut)),
        "outcome": outcome.outcome.value,
        "compared": outcome.compared,
        "differing": outcome.differing,
        "details": json.dumps({"message": outcome.message, **details}),
    }
    with Hive(settings) as hive:
        hive.query(RECORD, row)
    noted = reconciled.DayCompared(
        outcome.topic,
        outcome.day,
        outcome.run_at,
        outcome.outcome,
        outcome.compared,
        outcome.differing,
        {"message": outcome.message, **details},
    )
    reconciled.note(engine(settings), noted)
