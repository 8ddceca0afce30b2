"""The audit of a topic: where its lines are, from the front-ends' files to Hive.

What the platform *says* it counted (commits, event days, dead letters, the archive's index, Hive) is held
against what it must have counted: the lines in the files, and the byte ledger, which has the bytes of each
file whose lines were counted. A line is lost if the ledger lacks its first byte although everything is read
and drained. Flume's own counters play no part: they restart, and they count retries.
"""

from __future__ import annotations

from datetime import date

from sluice.quality.file_accounts import NOTHING, account, front_end_files
from sluice.quality.hops import HopCounts, Hops, reckon
from sluice.runtime import days
from sluice.runtime.settings import Settings


def audit(settings: Settings, topic: str, *, hive: bool = True, today: date | None = None) -> Hops:
    """Count every hop of a topic now. Without `hive`, Hive's two counts are what the books say; so they are
    while the SQL endpoint does not answer, and then the hops are `unseen`. Days before `today` are over;
    None: what the clock says (UTC).

    Reads every front-end file once, at disk speed. While lines are moving the hops are read one after another
    and cannot agree: then `in_flight` says what moves, and nothing is called lost.
    """
    from sluice.storage.hive import SqlUnavailable
    from sluice.storage.postgres import engine
    from sluice.storage.tables import eras, topic_totals

    moving = _collecting(settings)
    files = dict(front_end_files(settings, topic))
    ends = kafka_ends(settings, topic)
    logs = eras.logs(engine(settings), topic)
    with engine(settings).connect() as connection:
        books = topic_totals.read(connection, topic, today or days.today())
    accounts = tuple(
        account(path, *key, *books.ledger.get(key, (NOTHING, NOTHING))) for key, path in files.items()
    )
    seen, unseen = (books.archived - books.beyond_retention, books.computed_lines), ""
    if hive:
        try:
            seen = _hive(settings, topic)
        except SqlUnavailable as error:
            unseen = str(error)
    return reckon(HopCounts(topic, books, ends, accounts, moving, *seen, unseen, logs))


def kafka_ends(settings: Settings, topic: str) -> dict[int, int]:
    """The offset after each partition's last record."""
    from sluice.transmission.topics import TopicMissing, Topics

    with Topics(settings) as topics:
        try:
            return topics.ends(topic)
        except TopicMissing:
            return {}


def _collecting(settings: Settings) -> list[str]:
    from sluice.collection import deploy

    return [] if deploy.drained(settings) else ["lines in the front-ends' files or in the agents' channels"]


def _hive(settings: Settings, topic: str) -> tuple[int, int]:
    from sluice.storage.hive import Hive

    with Hive(settings) as hive:

        def rows(table: str) -> int:
            where = {"topic": topic}
            return int(hive.query(f"SELECT count(*) FROM {table} WHERE topic = %(topic)s", where).scalar())  # noqa: S608

        return rows("raw"), rows("logs")
