-- The tables of version 0.1.0; sluice.storage.tables.schema says what they hold.

CREATE TABLE tasks (
    id serial PRIMARY KEY,
    name text NOT NULL,
    topic text NOT NULL,
    enabled boolean NOT NULL DEFAULT true,
    version integer NOT NULL,
    deleted_at timestamptz,
    failed_at timestamptz,
    error text
);
CREATE UNIQUE INDEX tasks_name ON tasks (name) WHERE deleted_at IS NULL;

CREATE TABLE task_versions (
    task_id integer NOT NULL REFERENCES tasks (id),
    version integer NOT NULL,
    spec jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    sets jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (task_id, version)
);

CREATE TABLE task_changes (
    id serial PRIMARY KEY,
    task_id integer NOT NULL REFERENCES tasks (id),
    version integer NOT NULL,
    action text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    by text NOT NULL,
    detail text NOT NULL DEFAULT ''
);
CREATE INDEX task_changes_task ON task_changes (task_id, id);

CREATE TABLE value_lists (
    name text NOT NULL,
    version integer NOT NULL,
    "values" jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    deleted_at timestamptz,
    PRIMARY KEY (name, version)
);

CREATE TABLE topics (
    name text PRIMARY KEY,
    spec jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL
);

CREATE TABLE frozen_topics (
    topic text NOT NULL,
    frozen_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT settled_topics_pkey PRIMARY KEY (topic)
);

CREATE TABLE task_ranges (
    task_id integer NOT NULL,
    version integer NOT NULL,
    first_seq bigint NOT NULL,
    topic text NOT NULL,
    start jsonb NOT NULL,
    "end" jsonb,
    PRIMARY KEY (task_id, version, first_seq)
);
CREATE INDEX task_ranges_begun ON task_ranges (topic, first_seq);
CREATE INDEX task_ranges_open ON task_ranges (topic, task_id, version) WHERE "end" IS NULL;

CREATE TABLE commits (
    topic text NOT NULL,
    seq bigint NOT NULL,
    token text NOT NULL,
    topic_id text NOT NULL DEFAULT '',
    committed_at timestamptz NOT NULL DEFAULT now(),
    start jsonb NOT NULL,
    "end" jsonb NOT NULL,
    tasks jsonb NOT NULL,
    counts jsonb NOT NULL,
    PRIMARY KEY (topic, seq)
);

CREATE TABLE epochs (
    topic text NOT NULL,
    first_seq bigint NOT NULL,
    token text NOT NULL,
    PRIMARY KEY (topic, first_seq)
);

CREATE TABLE state_periods (
    topic text NOT NULL,
    task_id integer NOT NULL,
    version integer NOT NULL,
    period_start bigint NOT NULL,
    layout integer NOT NULL,
    since bigint NOT NULL,
    seq bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (topic, task_id, version, period_start)
);
CREATE INDEX state_periods_seq ON state_periods (topic, seq);

CREATE TABLE speed_topics (
    topic text PRIMARY KEY,
    driver text NOT NULL,
    owner text
);

CREATE TABLE projections (
    topic text PRIMARY KEY,
    seq bigint NOT NULL
);

CREATE TABLE ledger (
    topic text NOT NULL,
    host text NOT NULL,
    src_file text NOT NULL,
    starts bytea NOT NULL,
    ends bytea NOT NULL,
    last_seen timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, host, src_file)
);

CREATE TABLE event_days (
    topic text NOT NULL,
    day date NOT NULL,
    partition integer NOT NULL,
    lines bigint NOT NULL,
    last_offset bigint NOT NULL,
    PRIMARY KEY (topic, day, partition)
);

CREATE TABLE dead_letters (
    topic text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    host text,
    src_file text,
    src_offset bigint,
    reason text NOT NULL,
    bytes bigint NOT NULL,
    line bytea NOT NULL,
    arrived_at timestamptz NOT NULL,
    line_in_record integer NOT NULL DEFAULT 0,
    unreadable text,
    last_offset bigint,
    PRIMARY KEY (topic, partition, "offset", line_in_record)
);
CREATE INDEX dead_letters_arrived ON dead_letters (topic, arrived_at);
CREATE INDEX dead_letters_of_dimensions ON dead_letters (topic) WHERE reason LIKE 'dimension over %';

CREATE TABLE tallies (
    topic text NOT NULL,
    layer text NOT NULL,
    day date NOT NULL,
    task_id integer NOT NULL,
    version integer NOT NULL,
    counted bigint NOT NULL,
    filtered bigint NOT NULL,
    unmatched bigint NOT NULL,
    too_long bigint NOT NULL,
    PRIMARY KEY (topic, layer, day, task_id, version)
);

CREATE TABLE skipped_lines (
    topic text NOT NULL,
    layer text NOT NULL,
    day date NOT NULL,
    task_id integer NOT NULL,
    version integer NOT NULL,
    kind text NOT NULL,
    partition integer NOT NULL,
    "offset" bigint NOT NULL,
    line_in_record integer NOT NULL,
    reason text NOT NULL,
    bytes bigint NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (topic, layer, day, task_id, version, kind, partition, "offset", line_in_record)
);

CREATE TABLE archive_files (
    topic text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    first bigint NOT NULL,
    next bigint NOT NULL,
    records bigint NOT NULL,
    bytes bigint NOT NULL,
    arrival_min bigint NOT NULL,
    arrival_max bigint NOT NULL,
    days jsonb NOT NULL,
    unparsed bigint NOT NULL,
    generation integer NOT NULL,
    path text NOT NULL,
    lines bigint NOT NULL,
    PRIMARY KEY (topic, topic_id, partition, first)
);
CREATE INDEX archive_files_days ON archive_files USING gin (jsonb_path_query_array(days, '$.keyvalue().key'));

CREATE TABLE archive_losses (
    topic text NOT NULL,
    topic_id text NOT NULL,
    partition integer NOT NULL,
    first bigint NOT NULL,
    next bigint NOT NULL,
    reason text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, topic_id, partition, first)
);

CREATE TABLE days (
    topic text NOT NULL,
    day date NOT NULL,
    cut jsonb NOT NULL,
    run_id text NOT NULL,
    tasks_seq bigint NOT NULL,
    computed_at timestamptz NOT NULL DEFAULT now(),
    raw_lines bigint NOT NULL,
    lines bigint NOT NULL,
    published_cut jsonb,
    published_at timestamptz,
    backfills bigint NOT NULL DEFAULT '0',
    PRIMARY KEY (topic, day)
);

CREATE TABLE final_ranges (
    task_id integer NOT NULL,
    version integer NOT NULL,
    first bigint NOT NULL,
    until bigint NOT NULL,
    topic text NOT NULL,
    first_day date NOT NULL,
    last_day date NOT NULL,
    run_id text NOT NULL,
    blocks jsonb NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (task_id, version, first)
);
CREATE INDEX final_ranges_topic ON final_ranges (topic);

CREATE TABLE unused_finals (
    "row" text PRIMARY KEY,
    topic text NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE open_periods (
    topic text NOT NULL,
    task_id integer NOT NULL,
    version integer NOT NULL,
    start bigint NOT NULL,
    "end" bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, task_id, version, start)
);

CREATE TABLE uncounted (
    topic text NOT NULL,
    day date NOT NULL,
    task_id integer NOT NULL,
    version integer NOT NULL,
    reason text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, day, task_id, version)
);

CREATE TABLE backfills (
    id serial PRIMARY KEY,
    task_id integer NOT NULL,
    version integer NOT NULL,
    topic text NOT NULL,
    first_day date NOT NULL,
    last_day date NOT NULL,
    state text NOT NULL,
    done_days integer NOT NULL DEFAULT 0,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    run_id text,
    message text
);
CREATE INDEX backfills_version ON backfills (task_id, version);

CREATE TABLE backfill_days (
    task_id integer NOT NULL,
    version integer NOT NULL,
    day date NOT NULL,
    topic text NOT NULL,
    backfill_id integer NOT NULL,
    revision bigint NOT NULL,
    lines bigint NOT NULL,
    projected boolean NOT NULL,
    computed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (task_id, version, day)
);
CREATE INDEX backfill_days_topic ON backfill_days (topic, day);

CREATE TABLE backfill_blocks (
    "row" text PRIMARY KEY,
    topic text NOT NULL,
    task_id integer NOT NULL,
    version integer NOT NULL,
    day date NOT NULL,
    period_start bigint NOT NULL,
    layout integer NOT NULL,
    bucket integer NOT NULL,
    "column" text NOT NULL,
    bytes integer NOT NULL
);
CREATE INDEX backfill_blocks_day ON backfill_blocks (task_id, version, day);
CREATE INDEX backfill_blocks_period ON backfill_blocks (task_id, version, period_start);

CREATE TABLE backfill_revisions (
    topic text PRIMARY KEY,
    revision bigint NOT NULL
);

CREATE TABLE dropped_days (
    topic text NOT NULL,
    day date NOT NULL,
    dropped_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic, day)
);

CREATE TABLE pruned (
    topic text PRIMARY KEY,
    seq bigint NOT NULL,
    records bigint NOT NULL,
    doubled bigint NOT NULL,
    counted bigint NOT NULL,
    dead bigint NOT NULL,
    dead_letters bigint NOT NULL,
    files bigint NOT NULL
);

CREATE TABLE reconciled_days (
    topic text NOT NULL,
    day date NOT NULL,
    outcome text NOT NULL,
    run_at timestamptz NOT NULL,
    PRIMARY KEY (topic, day)
);

CREATE TABLE day_comparisons (
    topic text NOT NULL,
    day date NOT NULL,
    run_at timestamptz NOT NULL,
    outcome text NOT NULL,
    compared bigint NOT NULL,
    differing bigint NOT NULL,
    details jsonb NOT NULL,
    PRIMARY KEY (topic, day, run_at)
);

CREATE TABLE figures (
    at timestamptz PRIMARY KEY,
    figures jsonb NOT NULL
);

CREATE TABLE rebalances (
    id serial PRIMARY KEY,
    topic text NOT NULL,
    member text NOT NULL,
    generation integer NOT NULL,
    at timestamptz NOT NULL,
    why text NOT NULL,
    gained jsonb NOT NULL,
    lost jsonb NOT NULL,
    seconds double precision
);
CREATE INDEX rebalances_of ON rebalances (topic, id);

CREATE TABLE dashboards (
    id serial PRIMARY KEY,
    owner text NOT NULL,
    name text NOT NULL,
    shared boolean NOT NULL DEFAULT false,
    version integer NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    charts jsonb NOT NULL
);
CREATE UNIQUE INDEX dashboards_owner ON dashboards (owner, name);

CREATE TABLE unit_loads (
    unit text PRIMARY KEY,
    smoothed jsonb NOT NULL,
    reading jsonb
);

CREATE TABLE unit_hosts (
    host text PRIMARY KEY,
    cores integer,
    core double precision,
    measured_at timestamptz,
    smoothed jsonb NOT NULL,
    reading jsonb,
    looked_at timestamptz NOT NULL,
    silent_since timestamptz,
    why text NOT NULL DEFAULT ''
);

CREATE TABLE unit_moves (
    id serial PRIMARY KEY,
    unit text NOT NULL,
    source text NOT NULL,
    target text NOT NULL,
    why text NOT NULL,
    counts boolean NOT NULL,
    begun_at timestamptz NOT NULL,
    ended_at timestamptz,
    error text NOT NULL DEFAULT ''
);

CREATE TABLE history (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    who text NOT NULL,
    origin text NOT NULL,
    what text NOT NULL,
    name text NOT NULL,
    action text NOT NULL,
    before text NOT NULL DEFAULT '',
    after text NOT NULL DEFAULT '',
    token text UNIQUE
);
CREATE INDEX history_at ON history (at);
CREATE INDEX history_who ON history (who, id);

CREATE TABLE alerts (
    id serial PRIMARY KEY,
    source text NOT NULL,
    name text NOT NULL,
    message text NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT now(),
    cleared_at timestamptz,
    told_raised_at timestamptz,
    told_cleared_at timestamptz
);
CREATE UNIQUE INDEX alerts_open ON alerts (source, name) WHERE cleared_at IS NULL;

-- The days are those of `sluice.storage.history.KEPT_DAYS`.
CREATE FUNCTION refuse_change_of_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < now() - interval '30 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the history only grows: % is refused', TG_OP;
END $$;
CREATE TRIGGER history_grows BEFORE UPDATE OR DELETE ON history
    FOR EACH ROW EXECUTE FUNCTION refuse_change_of_history();
CREATE TRIGGER history_stays BEFORE TRUNCATE ON history
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_history();
