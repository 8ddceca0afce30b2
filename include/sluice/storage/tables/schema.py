"""The platform's transactional tables, in PostgreSQL.

Everything that decides whether a line was counted is committed here, in one transaction for each micro-batch
(`commits`, with the ledger, the periods of state and the task ranges that belong to it). Maps of offsets are
JSON objects from partition number (as text) to the offset *after* the last record.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData()

Json = JSON().with_variant(JSONB(), "postgresql")

tasks = Table(
    "tasks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("enabled", Boolean, nullable=False, server_default="true"),
    Column("version", Integer, nullable=False),  # the current one
    Column("deleted_at", DateTime(timezone=True)),
    # Set for a task that is set aside: its version failed at run time and is not counted until it is resumed
    # or changed.
    Column("failed_at", DateTime(timezone=True)),
    Column("error", Text),
    # A deleted task keeps its row, because its results keep its id. Its name is free again.
    Index("tasks_name", "name", unique=True, postgresql_where="deleted_at IS NULL"),
)

task_versions = Table(
    "task_versions",
    metadata,
    Column("task_id", Integer, ForeignKey("tasks.id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("spec", Json, nullable=False),
    Column("created_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("created_by", Text, nullable=False),
    # {list: version}: which version of each value list this task version reads, for ever.
    Column("sets", Json, nullable=False, server_default="{}"),
)

# Who changed what and when: created, changed, paused, resumed, deleted, failed, backfilled.
task_changes = Table(
    "task_changes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", Integer, ForeignKey("tasks.id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("action", Text, nullable=False),
    Column("at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("by", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
    Index("task_changes_task", "task_id", "id"),
)

# Named lists of values for filters. A change adds a version. A deleted list keeps its versions, because
# results were counted with them; a new list of that name continues their numbering.
value_lists = Table(
    "value_lists",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("values", Json, nullable=False),
    Column("created_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("created_by", Text, nullable=False),
    Column("deleted_at", DateTime(timezone=True)),
)

# The format of a topic's lines; a topic that is not listed here has Apache's access log.
topics = Table(
    "topics",
    metadata,
    Column("name", Text, primary_key=True),
    Column("spec", Json, nullable=False),
    Column("created_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("created_by", Text, nullable=False),
)

# Topics whose lines a layer has begun to read. Their format stays, because both layers must read them alike.
frozen_topics = Table(
    "frozen_topics",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("frozen_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# The offsets that a version counts, from the start of its first commit to the start of the first commit
# without it. A version that is paused and resumed has several ranges.
task_ranges = Table(
    "task_ranges",
    metadata,
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("first_seq", BigInteger, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("start", Json, nullable=False),
    Column("end", Json),  # null while the version is active
    Column("end_seq", BigInteger),  # the first commit without it; null of some ranges before schema 0030
    # Versions that are over stay for ever, so no batch and no reader may look through all ranges.
    Index("task_ranges_begun", "topic", "first_seq"),
    Index("task_ranges_ended", "topic", "end_seq"),
    Index("task_ranges_open", "topic", "task_id", "version", postgresql_where='"end" IS NULL'),
)

commits = Table(
    "commits",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),  # 1, 2, 3 ...: a second writer collides here and stops
    Column("token", Text, nullable=False),  # the random name of the attempt that was committed
    Column("topic_id", Text, nullable=False, server_default=""),  # the Kafka topic that the offsets refer to
    Column("committed_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("start", Json, nullable=False),
    Column("end", Json, nullable=False),
    Column("tasks", Json, nullable=False),  # [[task id, version], ...] that this batch counted
    Column("counts", Json, nullable=False),  # {records, doubled, counted, dead}
)

# Which token the columns of a commit have in HBase, by runs of commits: an epoch goes from its first commit
# to the next epoch's. A token names one attempt at a commit, and the commits after it until the next token.
epochs = Table(
    "epochs",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("first_seq", BigInteger, primary_key=True),
    Column("token", Text, nullable=False),  # empty: no column of these commits is readable
)

# The periods that have state. A block's column is readable if its commit is `since` or later, is committed,
# and its epoch has the column's token.
state_periods = Table(
    "state_periods",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("period_start", BigInteger, primary_key=True),  # ms since the epoch
    Column("layout", Integer, nullable=False),  # number of buckets
    Column("since", BigInteger, nullable=False),  # the commit that the period began with
    Column("seq", BigInteger, nullable=False),  # the newest commit that changed it
    Column("bytes", BigInteger, nullable=False),  # about, of all its blocks
    Index("state_periods_seq", "topic", "seq"),
)

# Which driver of the speed layer should count a topic, and which one counts it. A topic without a row is the
# first driver's, or gets a row: with one driver the table is empty. To move a topic is to change `driver`.
speed_topics = Table(
    "speed_topics",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("driver", Text, nullable=False),  # e.g. "speed_layer-2"
    Column("owner", Text),  # the driver that took the topic last, until it releases it
)

# The last commit whose results are all in HBase.
projections = Table(
    "projections",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
)

# The byte ledger: disjoint, sorted, coalesced half-open intervals [start, end) of each front-end file,
# as two little-endian int64 arrays.
ledger = Table(
    "ledger",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("src_file", Text, primary_key=True),
    Column("starts", LargeBinary, nullable=False),
    Column("ends", LargeBinary, nullable=False),
    Column("last_seen", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# The lines that the speed layer counted for each day of event time, and the last offset that held one.
event_days = Table(
    "event_days",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("lines", BigInteger, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("line_in_record", Integer, primary_key=True, server_default="0"),
    Column("host", Text),
    Column("src_file", Text),
    Column("src_offset", BigInteger),
    Column("reason", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),  # of the whole line
    Column("line", LargeBinary, nullable=False),  # its beginning
    Column("arrived_at", DateTime(timezone=True), nullable=False),
    Column("unreadable", Text),  # what was wrong with the record's bytes; `line` is then their beginning
    Column("last_offset", BigInteger),  # of the records that could not be read; null: the line is of one
    Index("dead_letters_arrived", "topic", "arrived_at"),
    # Lines that earlier releases counted for no task, because one task could not take a value (`barred`).
    Index("dead_letters_of_dimensions", "topic", postgresql_where=text("reason LIKE 'dimension over %'")),
)

# What became of the lines that have a time, by task version and day of event time: `layer` is online (the
# speed layer's, added up by each commit), filled (a backfill's) or offline (the day as it was last computed).
# Task 0 is the topic: of its lines, `unmatched` are not of its format. Releases before this table
# counted lines without it: then the topic's lines in it are fewer than those of the day.
tallies = Table(
    "tallies",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("layer", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("counted", BigInteger, nullable=False),
    Column("filtered", BigInteger, nullable=False),
    Column("unmatched", BigInteger, nullable=False),
    Column("too_long", BigInteger, nullable=False),
)

# Samples of the lines that a task version skipped; a few for each day and kind (unmatched, too_long).
skipped_lines = Table(
    "skipped_lines",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("layer", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("line_in_record", Integer, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),  # of the whole line
    Column("line", LargeBinary, nullable=False),  # its beginning
)

#: The days of event time whose lines a file of the archive has, as a JSON array. Without the numbers, an
#: index over it has a hundredth of the table's bytes.
DAYS_OF_FILE = "jsonb_path_query_array(days, '$.keyvalue().key')"

# An index over the footers of the archive's files. It is made and rebuilt from them; they are the truth.
archive_files = Table(
    "archive_files",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("topic_id", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("next", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),  # of Kafka
    Column("lines", BigInteger, nullable=False),  # in these records
    Column("bytes", BigInteger, nullable=False),
    Column("arrival_min", BigInteger, nullable=False),  # ms since the epoch
    Column("arrival_max", BigInteger, nullable=False),
    # {"2015-05-17": [lines, first, last, first, last ...], ...}: by day of event time the lines, doubles
    # included, and the stretches of time (ms) that they lie in; of older files {"2015-05-17": lines, ...}.
    Column("days", Json, nullable=False),
    Column("unparsed", BigInteger, nullable=False),
    Column("redacted", BigInteger, server_default="0", nullable=False),  # of the lines, those erased
    Column("generation", Integer, nullable=False),
    Column("path", Text, nullable=False),
    # Who looked before this may still read the files that this one replaces.
    Column("indexed_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Index("archive_files_days", text(DAYS_OF_FILE), postgresql_using="gin").ddl_if(dialect="postgresql"),
)

# The sums over the files of each chain of the archive. Triggers of `archive_files` keep them, whoever writes
# there, so nobody has to add up all files ever.
archive_chains = Table(
    "archive_chains",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("topic_id", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("files", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),  # of Kafka
    Column("lines", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("offsets", BigInteger, nullable=False),  # from each file's first to its next
)

# Where each chain of archive files begins, since retention deleted what came before; and the sums of that.
archive_floors = Table(
    "archive_floors",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("topic_id", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),  # of Kafka
    Column("lines", BigInteger, nullable=False),
)

# The days of event time of which retention deleted lines from the archive, and how many.
archive_expired_days = Table(
    "archive_expired_days",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("lines", BigInteger, nullable=False),
    Column("expired_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# The eras of each partition's log (runtime.positions): a new one begins where Kafka lost records that
# a layer had read. The newest one's epoch is of the newest leader that was looked at.
log_eras = Table(
    "log_eras",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("era", Integer, primary_key=True),
    Column("topic_id", Text, nullable=False),
    Column("begins", BigInteger, nullable=False),  # Kafka's offset, as are those of `reached`
    Column("epoch", Integer, nullable=False),
    Column("reached", BigInteger, nullable=False),  # up to which the era before was read
    Column("found_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    # The epoch for which it is settled that the front-ends sent again what Kafka lost before it; null: none.
    Column("settled_epoch", Integer),
)

# Ranges of offsets that Kafka dropped before they were archived.
archive_losses = Table(
    "archive_losses",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("topic_id", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("next", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("recorded_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# The batch layer's book: the cut up to which a day was last computed, and the cut at which it was published.
# A day is *closed* once it was published. It is *marked* while event_days.last_offset has reached its cut
# (a line came after it was computed), while a task version changed below its cut (see tasks_seq), or while a
# backfill changed it since (see backfills).
days = Table(
    "days",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("cut", Json, nullable=False),
    Column("run_id", Text, nullable=False),
    # The newest commit when the task versions were read. If a later commit starts or ends a version below the
    # cut, the day was computed with the wrong versions, so it is computed again.
    Column("tasks_seq", BigInteger, nullable=False),
    # The topic's revision of backfills at that time: a day that was filled since then is computed again.
    Column("backfills", BigInteger, server_default="0", nullable=False),
    Column("computed_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("raw_lines", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),  # doubles removed
    Column("published_cut", Json),
    Column("published_at", DateTime(timezone=True)),
)

# The periods that were published, by ranges of their starts: [first, until) in ms since the epoch. A range
# lies on a day of event time, or is one period of several days. A reader takes the periods in its blocks from
# there (see `storage.tables.finals`).
final_ranges = Table(
    "final_ranges",
    metadata,
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("until", BigInteger, nullable=False),
    Column("topic", Text, nullable=False),
    Column("first_day", Date, nullable=False),  # the days of event time that the periods lie in
    Column("last_day", Date, nullable=False),
    Column("run_id", Text, nullable=False),  # of the nightly run that computed the day that was published
    Column("blocks", Json, nullable=False),  # [[row, first period, last period, rows, bytes], ...] in order
    Column("published_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Index("final_ranges_topic", "topic"),
)

# Rows of HBase's table `finals` that no range names: those that a publication is writing, and those that
# another publication replaced. They are deleted a while later.
unused_finals = Table(
    "unused_finals",
    metadata,
    Column("row", Text, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("since", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# Periods of several days that no reconciliation could compare yet: [start, end) in ms since the epoch.
open_periods = Table(
    "open_periods",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("start", BigInteger, primary_key=True),
    Column("end", BigInteger, nullable=False),
    Column("since", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# Versions that the batch layer could not count on a day; they stay here until a run computes them.
uncounted = Table(
    "uncounted",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("since", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# Requests to count the lines that came before a task version's first commit.
backfills = Table(
    "backfills",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("task_id", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("topic", Text, nullable=False),
    Column("first_day", Date, nullable=False),
    Column("last_day", Date, nullable=False),
    Column("state", Text, nullable=False),  # requested, running, finished, failed
    Column("done_days", Integer, server_default="0", nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("requested_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("finished_at", DateTime(timezone=True)),
    Column("run_id", Text),  # of the DAG task_backfill
    Column("message", Text),  # why it failed
    Index("backfills_version", "task_id", "version"),
)

# The days of event time that a version was filled backwards for, each with the last backfill that filled it.
backfill_days = Table(
    "backfill_days",
    metadata,
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("backfill_id", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),  # of the topic, when the day's row was last changed
    Column("lines", BigInteger, nullable=False),  # that the version counted
    Column("projected", Boolean, nullable=False),  # its results are all in HBase
    Column("computed_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Index("backfill_days_topic", "topic", "day"),
)

# Where the blocks of a filled day are. They are added to the speed layer's blocks of the same period.
backfill_blocks = Table(
    "backfill_blocks",
    metadata,
    Column("row", Text, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("task_id", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("day", Date, nullable=False),
    Column("period_start", BigInteger, nullable=False),  # ms since the epoch
    Column("layout", Integer, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("column", Text, nullable=False),
    Column("bytes", Integer, nullable=False),
    Index("backfill_blocks_period", "task_id", "version", "period_start"),
    Index("backfill_blocks_day", "task_id", "version", "day"),
)

# The revision goes up by one in every transaction that changes `backfill_days` or `backfill_blocks`. The lock
# of its row makes these transactions visible in this order: a reader that has seen revision n has seen all
# changes before it.
backfill_revisions = Table(
    "backfill_revisions",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)

# Requests to count periods again from the archive, and how far each is (`storage.tables.rebuilds`).
rebuilds = Table(
    "rebuilds",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("versions", Json),  # [[task id, version], ...]; null: the periods that were set aside
    Column("first_day", Date),  # null: from the first one on
    Column("last_day", Date),
    Column("state", Text, nullable=False),  # requested, counting, switched, finished
    Column("cut", Json),  # the end of a commit: the rebuild owns what lies below, the speed layer the rest
    Column("cut_seq", BigInteger),  # that commit
    Column("eras", Json),  # the newest of each partition then; null: it begins anew, with another cut
    # The topic's revision of filled days then: a day that was filled since is counted once more.
    Column("revision", BigInteger, server_default="0", nullable=False),
    Column("days", Json, nullable=False, server_default="[]"),  # that are to be counted
    Column("done_days", Json, nullable=False, server_default="[]"),  # those of them that are staged
    Column("lines", BigInteger, nullable=False, server_default="0"),  # that the versions counted
    Column("requested_by", Text, nullable=False),
    Column("requested_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("finished_at", DateTime(timezone=True)),
    Column("tried_at", DateTime(timezone=True)),  # when the last try ended badly
    Column("message", Text),  # what was wrong then
    Index("rebuilds_unfinished", "id", postgresql_where=text("state <> 'finished'")),
)

# Periods that are counted again from the archive. Nobody reads what there is of one until its blocks are
# switched; then the row stays until its results are written.
recounts = Table(
    "recounts",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("task_id", Integer, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("period_start", BigInteger, primary_key=True),  # ms since the epoch
    Column("why", Text),  # what was lost or damaged; null: somebody asked
    Column("since", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("rebuild_id", Integer),  # null: no rebuild has it yet
    Column("switched", Boolean, nullable=False, server_default="false"),
    # Whether the archive lacks lines of it that retention deleted: no rebuild takes it.
    Column("expired", Boolean, nullable=False, server_default="false"),
    Column("failed", Text),  # why a rebuild could not count the version; none takes it by itself then
)

# Blocks that a rebuild has written and not switched yet: rows of `backfill_blocks` to come.
rebuilt_blocks = Table(
    "rebuilt_blocks",
    metadata,
    Column("rebuild_id", Integer, primary_key=True),
    *(
        Column(each.name, each.type, primary_key=each.primary_key, nullable=False)
        for each in backfill_blocks.columns
    ),
)

# Days of event time whose results are beyond retention: both layers have dropped them.
dropped_days = Table(
    "dropped_days",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("dropped_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
)

# The counts of the rows that retention deleted, so that the audit's sums still hold.
pruned = Table(
    "pruned",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),  # up to this commit, with exceptions
    Column("records", BigInteger, nullable=False),
    Column("doubled", BigInteger, nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("dead", BigInteger, nullable=False),
    Column("dead_letters", BigInteger, nullable=False),
    Column("files", BigInteger, nullable=False),  # rows of the ledger
    # Lines that were counted or dead letters until they were erased; the sums above are less by as many.
    Column("redacted", BigInteger, server_default="0", nullable=False),
)

# Who had which lines erased. Of the value there is a salted hash, by which the same request is known again.
erasures = Table(
    "erasures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("dimension", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("value_hash", LargeBinary, nullable=False),
    Column("first_day", Date),
    Column("last_day", Date),
    Column("state", Text, nullable=False),
    # The end of the newest commit when it began: what came later is not erased.
    Column("cut", Json, nullable=False),
    Column("days", Json, nullable=False),  # of event time, that had such lines
    Column("counts", Json, nullable=False),  # by part
    Column("requested_by", Text, nullable=False),
    Column("requested_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("redacted_at", DateTime(timezone=True)),  # days that were computed before are computed again
    Column("finished_at", DateTime(timezone=True)),
    Index("erasures_topic", "topic"),
)

# A file of the archive while lines are erased in it: what becomes of the sums once the new one stands.
erased_files = Table(
    "erased_files",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("topic_id", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("erasure_id", Integer, nullable=False),
    Column("claim", Text, nullable=False),  # of the new file's footer
    Column("account", Json, nullable=False),
)

# How the last comparison of each day ended; Hive's table `reconciliations` has all comparisons.
reconciled_days = Table(
    "reconciled_days",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("outcome", Text, nullable=False),  # agrees, differs, superseded
    Column("run_at", DateTime(timezone=True), nullable=False),
)

# The comparisons of each day: the newest ones, with what they found. Hive's table has all of them.
day_comparisons = Table(
    "day_comparisons",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("run_at", DateTime(timezone=True), primary_key=True),
    Column("outcome", Text, nullable=False),  # agrees, differs, superseded
    Column("compared", BigInteger, nullable=False),  # results
    Column("differing", BigInteger, nullable=False),  # of them
    # {"message", "differences", "hops", "open_periods", "tasks": {name: [compared, differing]},
    # "skipped": {name: {"unmatched", "too_long"}}, which is null if they were not counted then}
    Column("details", Json, nullable=False),
)

# The figures that operators read, a sample a minute for the last 24 hours.
figures = Table(
    "figures",
    metadata,
    Column("at", DateTime(timezone=True), primary_key=True),
    Column("figures", Json, nullable=False),  # {metric: [[labels, value], ...]}
)

# What rebalances of the archiver's groups gave to a member, or took from it; the last 4,000 of a topic.
rebalances = Table(
    "rebalances",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("member", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("why", Text, nullable=False),
    Column("gained", Json, nullable=False),  # partitions
    Column("lost", Json, nullable=False),
    Column("seconds", Float),  # until the member read all that it gained
    Index("rebalances_of", "topic", "id"),
)

# Pinned charts in an order, kept by a user. A dashboard is one row, so whoever changes it sees all of it.
dashboards = Table(
    "dashboards",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("shared", Boolean, nullable=False, server_default="false"),
    Column("version", Integer, nullable=False),  # goes up with every change
    Column("changed_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("charts", Json, nullable=False),  # [[title, address], ...]
    Index("dashboards_owner", "owner", "name", unique=True),
)

# What each unit that runs asks of its host, smoothed; a row for each unit that there is now.
unit_loads = Table(
    "unit_loads",
    metadata,
    Column("unit", Text, primary_key=True),  # e.g. "collector:collector1"
    Column("smoothed", Json, nullable=False),  # {figure: [sum, weight]}
    Column("reading", Json),  # the last one of its process
)

# What is known of each host: how fast it is, what runs there beside units, and whether it answers. A row for
# each host of hosts.yaml.
unit_hosts = Table(
    "unit_hosts",
    metadata,
    Column("host", Text, primary_key=True),
    Column("cores", Integer),
    Column("core", Float),  # how fast one is; 1 is the reference
    Column("measured_at", DateTime(timezone=True)),
    Column("smoothed", Json, nullable=False),  # {figure: [sum, weight]}
    Column("reading", Json),
    Column("looked_at", DateTime(timezone=True), nullable=False),
    Column("silent_since", DateTime(timezone=True)),  # null: it answered the last look
    Column("why", Text, nullable=False, server_default=""),  # nothing can be done there
)

# Moves of units from host to host, the last 1,000. One without an end was broken off, or is at work.
unit_moves = Table(
    "unit_moves",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("unit", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("counts", Boolean, nullable=False),  # against the budget
    Column("begun_at", DateTime(timezone=True), nullable=False),
    Column("ended_at", DateTime(timezone=True)),
    Column("error", Text, nullable=False, server_default=""),  # of one that failed
)

# Who changed what. Entries are only added: triggers refuse anything else (see `storage.tables.history`).
history = Table(
    "history",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("who", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("before", Text, nullable=False, server_default=""),
    Column("after", Text, nullable=False, server_default=""),
    Column("token", Text, unique=True),  # of an entry that was kept in a file first
    Index("history_at", "at"),
    Index("history_who", "who", "id"),
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("source", Text, nullable=False),  # e.g. "collection"
    Column("name", Text, nullable=False),  # e.g. "web1: channel 83 % full"
    Column("message", Text, nullable=False),
    Column("raised_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("cleared_at", DateTime(timezone=True)),
    Column("told_raised_at", DateTime(timezone=True)),
    Column("told_cleared_at", DateTime(timezone=True)),
    Index("alerts_open", "source", "name", unique=True, postgresql_where="cleared_at IS NULL"),
)
