"""Looks for what Kafka may have lost, has the front-ends send it again, and says what is lost for good.

A loss stays open in PostgreSQL (`storage.tables.open_losses`) until it is settled, so whoever looks next goes
on. Two who look at once do no harm: an edge is changed under the deployment's lock, and doubles are
recognised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from sqlalchemy import Engine

from sluice.archive.newest_files import days_since
from sluice.collection import deploy
from sluice.quality.resend import Finding, Resend
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts, open_losses
from sluice.storage.tables.open_losses import CLOCKS, OpenLoss, Unarchived

#: After an edge could not be asked; a host may be away for days.
AWAY_SECONDS = 600.0
#: Whoever finds a loss raises its alert after the loss is in PostgreSQL.
TOLD_SECONDS = 10.0
SOURCE = "archive"
NOBODY_SENDS = (
    "no front-end of the inventory writes into the topic, so nothing is sent again by itself: have its "
    "producers send again what they still have"
)

Log = Callable[[str], None]


class LossWatch:
    """What one watcher remembers from one look to the next."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._database = engine(settings)
        self._resends: dict[str, Resend] = {}
        self._sent: dict[str, set[str]] = {}  # by topic, the edges that have sent again what was missing
        self._not_before: dict[str, float] = {}
        self._seen: dict[str, float] = {}  # since when topics have an open loss

    def look(self, only: str | None = None) -> list[str]:
        """Take the next step for each topic with an open loss, or for one; returns lines for the log.

        It takes no longer than a query if there is no loss. Raises what the stores raise while they are away.
        """
        said: list[str] = []
        found = [each for each in open_losses.open_losses(self._database) if only in (None, each.topic)]
        for topic, own in groupby(found, lambda each: each.topic):
            self._step(topic, list(own), said.append)
        for topic in (self._resends.keys() | self._seen.keys()) - {each.topic for each in found}:
            self._forget(topic)
        return said

    def waits_for_edges(self, topic: str) -> bool:
        """Whether edges of the topic could not be asked; they are asked again later."""
        return self._clock() < self._not_before.get(topic, 0)

    def _step(self, topic: str, losses: list[OpenLoss], log: Log) -> None:
        if self._clock() < self._seen.setdefault(topic, self._clock()) + TOLD_SECONDS:
            return
        if not any((each.tier, each.topic) == ("edge", topic) for each in deploy.agents(self._settings)):
            nobody_sends(self._database, topic, losses, log)
            return
        if self.waits_for_edges(topic):
            return
        resend = self._resends.get(topic)
        if resend is None or list(resend.losses) != losses:  # Kafka may have lost more
            self._sent[topic] = set()
            resend = self._resends[topic] = Resend(self._settings, topic, losses)
        finding = resend.find()
        if finding is not None:
            self._conclude(resend, finding, log)

    def _conclude(self, resend: Resend, finding: Finding, log: Log) -> None:
        topic, failed = resend.topic, dict(finding.away)
        sent = self._sent.setdefault(topic, set())
        if lines := [each for each in finding.lines if each.host not in sent]:
            note(self._settings, resend, finding)
            failed |= resend.send(lines, log)
            sent |= {each.host for each in lines} - failed.keys()
            if not failed:
                return
        if failed:
            log(f"{topic}: what Kafka lost is still to be sent again by {', '.join(sorted(failed))}")
            self._resends[topic] = Resend(self._settings, topic, resend.losses)  # what was sent stays known
            self._not_before[topic] = self._clock() + AWAY_SECONDS
            return
        settle(self._settings, resend, finding, log)
        self._forget(topic)

    def _forget(self, topic: str) -> None:
        self._resends.pop(topic, None)
        self._sent.pop(topic, None)
        self._seen.pop(topic, None)


def note(settings: Settings, resend: Resend, finding: Finding) -> None:
    """Say in the alerts what is sent again now."""
    text = f"the front-ends send again what is missing: {_some(finding.lines)}"
    found = _alerts_of(engine(settings), resend.topic, resend.losses, finding.unarchived)
    alerts.note(engine(settings), SOURCE, found, text)


def settle(settings: Settings, resend: Resend, finding: Finding, log: Log) -> None:
    """Close the losses. Their alerts are cleared; another one names what is lost for good, if anything is.

    Days are computed again if lines of them were archived after they had been computed.
    """
    database, topic = engine(settings), resend.topic
    if finding.unarchived:
        since = min(each.found_at for each in resend.losses if each.of_read) - CLOCKS
        late = days_since(database, topic, round(since.timestamp() * 1000))
        open_losses.mark_days(database, topic, late)
    name = for_good(topic)
    if finding.lost:
        message = f"Kafka lost lines of {topic} for good: {'; '.join(_losses(finding))}"
        log(message)
        alerts.sync(database, SOURCE, {name: message}, prefix=name)
    elif any(each.asked for each in resend.losses):  # a person looked, and nothing is missing any more
        alerts.clear(database, SOURCE, [name])
    alerts.clear(database, SOURCE, _alerts_of(database, topic, resend.losses, finding.unarchived))
    open_losses.settle(database, resend.losses)


def nobody_sends(database: Engine, topic: str, losses: Sequence[OpenLoss], log: Log) -> None:
    """Close the losses of a topic without edges; their alerts say so until a person asks, who is told."""
    if any(each.asked for each in losses):
        log(f"{topic}: {NOBODY_SENDS}. The alerts about it are cleared")
        found = _alerts_of(database, topic, losses, open_losses.unarchived(database, losses))
        alerts.clear(database, SOURCE, [*found, for_good(topic)])
    else:
        alerts.note(database, SOURCE, [each.alert for each in losses], NOBODY_SENDS)
    open_losses.settle(database, losses)


def for_good(topic: str) -> str:
    """The name of the alert about what cannot be sent again."""
    return f"lost {topic}: for good"


def _alerts_of(
    database: Engine, topic: str, losses: Iterable[OpenLoss], lacking: Iterable[Unarchived]
) -> list[str]:
    of_archive = open_losses.alerts_of(database, topic, lacking)
    return [each.alert for each in losses if each.of_read] + of_archive


def _losses(finding: Finding) -> Iterable[str]:
    if finding.gone:
        yield f"their files are gone: {_some(finding.gone)}"
    if finding.lines:
        yield f"they were sent again and are still missing: {_some(finding.lines)}"
    if finding.others:
        yield "records that were not collected from files are among them: have their producers send again"


def _some(what: Iterable[object], most: int = 5) -> str:
    texts = [str(each) for each in what]
    return "; ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")
