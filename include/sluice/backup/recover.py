"""Makes an instance's lost PostgreSQL again from what still stands: the definitions and the archive in HDFS.

First HDFS alone is looked at, and nothing is changed. Then a marker lies in the instance's directory until
all is done; with it the instance does not start. A recovery that was cut short goes on: a database that was
not filled yet is made anew, and a topic's commits go on behind the newest.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.backup import contents
from sluice.backup.contents import DATABASE, RECOVERING
from sluice.backup.restore import DAEMONS, Phase, alone, running_daemons
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice.stack import bringup, shutdown, supervisord
from sluice.stack.networking import private

if TYPE_CHECKING:
    from sluice.backup.definitions import Definitions

Say = Callable[[str], None]

#: The daemons that a look needs.
LOOK = ("namenode", "datanode")
#: What the marker says: the database is being made, or has the definitions.
BEGUN, DEFINED = "begun", "defined"
#: What nothing that still stands says.
GONE = (
    "Airflow's runs and their history (its own database begins anew)",
    "the history of changes, alerts, and the comparisons that the pages show (Hive's `reconciliations` stay)",
    "samples of skipped lines, and how many lines each task skipped on the days until now",
    "which days were published: nights compute and publish those of the last month again; for older days "
    "run `sluice nightly --from DAY --to DAY`",
    "changes of tasks, topics and lists of the last seconds before the loss",
)


class RecoveryRefused(ValueError):
    """Nothing is lost that could be made again, or not here."""


@dataclass(frozen=True)
class RecoveryPlan:
    """What a recovery finds. written: when the definitions were."""

    definitions: Definitions
    written: datetime
    archived: dict[str, tuple[int, int]]  # files and bytes by topic

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that are not deleted."""
        return sorted(row["name"] for row in self.definitions.rows["tasks"] if not row["deleted_at"])


@dataclass(frozen=True)
class RecoveredTopic:
    """A topic that counts on: the archive's lines, and the periods that are counted again."""

    topic: str
    lines: int  # that this run committed, doubles included
    periods: int
    problems: tuple[str, ...]


def look(settings: Settings, say: Say) -> RecoveryPlan:
    """What a recovery would find; changes nothing. Raises RecoveryRefused, NoDefinitions, HdfsUnavailable."""
    require_lost(settings)
    with running_daemons(settings, say, LOOK) as running:
        return plan_of(running)


def plan_of(settings: Settings) -> RecoveryPlan:
    """What HDFS has. Raises NoDefinitions, HdfsUnavailable."""
    from sluice.archive.verification import archived_topics, found_places
    from sluice.backup.definition_files import DefinitionFiles

    kept = DefinitionFiles.of(settings).newest()
    archived = {}
    for topic in archived_topics(settings):
        files = [file for _, claims in found_places(settings, topic) for file in claims.files()]
        if files:
            archived[topic] = len(files), sum(file.length for file in files)
    return RecoveryPlan(kept.definitions, datetime.fromtimestamp(kept.file.modified / 1000, UTC), archived)


def require_lost(settings: Settings) -> None:
    """Raise RecoveryRefused unless the instance is stopped and its PostgreSQL's data is gone."""
    home, name = settings.home, settings.instance
    if outside := sorted(settings.external & {"postgres", "hdfs", "hbase"}):
        raise RecoveryRefused(
            f"external: {', '.join(outside)} run elsewhere, and only what the instance runs itself can be "
            "made again: restore PostgreSQL by its own means"
        )
    contents.require_restored(settings)
    if supervisord.running(settings):
        raise RecoveryRefused(f"instance {name!r} runs: stop it first (`sluice --instance {name} down`)")
    if not (home / "data" / "namenode").exists():
        raise RecoveryRefused(
            f"instance {name!r} has no HDFS in {home / 'data' / 'namenode'}, so there is no archive to "
            "recover from: `sluice restore` puts a backup back, `sluice up` begins a new instance"
        )
    database = home / DATABASE
    if database.exists() and any(database.iterdir()) and not (home / RECOVERING).exists():
        raise RecoveryRefused(
            f"{database} is there, and a recovery never replaces a database. If PostgreSQL starts on it, "
            f"`sluice --instance {name} up` goes on; if it is damaged beyond start (`sluice logs postgres`), "
            f"move it away: mv {database} {database}.damaged"
        )


def recover(
    settings: Settings, phase: Phase, say: Say, declare_lost: bool = False
) -> tuple[RecoveryPlan, list[RecoveredTopic]]:
    """Make the database again; the instance is stopped afterwards, and ready for `sluice up`.

    declare_lost: whether gaps of the archive that Kafka cannot fill are closed as losses.

    Raises RecoveryRefused, ArchiveHasGaps, NoDefinitions, SchemaRefused, UnreadableArchiveFile, TopicMissing,
    and what the stores raise.
    """
    with alone(settings):
        if (settings.home / RECOVERING).exists():
            say("a recovery was cut short: it goes on")
            shutdown.down(settings, say, lambda *_: None)
        require_lost(settings)
        # In one go, because a process enters an instance's network only once.
        with running_daemons(settings, say, LOOK) as running:
            plan = plan_of(running)
            _begin(settings)
            bringup.up(running, say, (), DAEMONS)
            supervisord.stop_program(running, "watch")
            define(running, plan.definitions, phase)
            topics = sorted(plan.archived)
            problems = {topic: index(running, topic, phase, declare_lost) for topic in topics}
            empty_tables(running, phase)
            done = [count(running, topic, problems[topic], phase) for topic in topics]
        (settings.home / RECOVERING).unlink()
    return plan, done


def _begin(settings: Settings) -> None:
    """Lay the marker; a database that an earlier run had not filled yet goes."""
    marker = settings.home / RECOVERING
    if not marker.exists() or marker.read_text() != DEFINED:
        write_whole(marker, BEGUN)
        if (settings.home / DATABASE).exists():
            shutil.rmtree(settings.home / DATABASE)
    private.close(settings)


def define(settings: Settings, kept: Definitions, phase: Phase) -> None:
    """Make the schema that the definitions are of, write them, and bring it to this release's."""
    from sluice.backup import definitions, lost_state
    from sluice.storage import postgres

    marker = settings.home / RECOVERING
    with phase("definitions") as told:
        if marker.read_text() != DEFINED:
            postgres.migrate(settings, kept.revision)
            with postgres.engine(settings).begin() as connection:
                definitions.put(connection, kept)
            postgres.migrate(settings)
            with postgres.engine(settings).begin() as connection:
                lost_state.forget_broken_off(connection)
            write_whole(marker, DEFINED)
        told(f"{sum(map(len, kept.rows.values())):,} rows")


def index(settings: Settings, topic: str, phase: Phase, declare_lost: bool) -> tuple[str, ...]:
    """Make the topic's index and its eras again, and close gaps; returns what is wrong with its archive."""
    from sluice.archive.verification import rebuild
    from sluice.backup import archive_gaps, missing_eras
    from sluice.storage.postgres import engine
    from sluice.transmission.topics import Topics

    with phase(f"index of {topic}") as told, Topics(settings) as topics:
        for place, files in rebuild(settings, topic):
            told(f"{place}: {files:,} files")
        missing_eras.complete(engine(settings), topics, topic)
        found = archive_gaps.close(settings, topic, declare_lost=declare_lost, tell=told)
    return tuple(said for each in found for said in each.problems)


def empty_tables(settings: Settings, phase: Phase) -> None:
    """Make HBase's tables anew: PostgreSQL said which of their cells count, and nobody knows it any more."""
    from sluice.storage.hbase import FINALS, RESULTS, STATE, HBase, ensure_tables

    with phase("HBase") as told, HBase.of(settings) as hbase:
        for table in (STATE, RESULTS, FINALS):
            hbase.drop_table(table)
        ensure_tables(settings)
        told("empty")


def count(settings: Settings, topic: str, problems: tuple[str, ...], phase: Phase) -> RecoveredTopic:
    """Commit the archive's lines, and put on the list what tasks had counted of them."""
    from sluice.archive.index import positions
    from sluice.backup import lost_state
    from sluice.backup.archive_commits import ArchiveCommits
    from sluice.metrics import load_team
    from sluice.storage.postgres import engine

    load_team()
    commits = ArchiveCommits(settings, engine(settings), topic)
    with phase(f"lines of {topic}") as told:
        lost_state.end_ranges_at(engine(settings), topic, positions(settings, topic))
        periods = lost_state.set_aside(engine(settings), topic)
        commits.write(told)
        told(f"{commits.lines:,} lines, {periods:,} periods to count again")
    return RecoveredTopic(topic, commits.lines, periods, problems)
