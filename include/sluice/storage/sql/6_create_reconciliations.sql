-- One row a reconciliation. Each is a file of 3 KB: a year of one topic is fewer files than one busy hour of raw.
CREATE TABLE IF NOT EXISTS {database}.reconciliations (
  topic STRING,
  day STRING,
  run_at TIMESTAMP,
  cut STRING,
  outcome STRING,
  compared BIGINT,
  differing BIGINT,
  details STRING
) USING parquet LOCATION '{warehouse}/{database}.db/reconciliations'
