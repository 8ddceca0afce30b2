-- What the tasks count, by the day of the period's start (UTC). `series` is the escaped key that is also part of
-- the row key in HBase; accumulators are 8 bytes, little-endian.
CREATE TABLE IF NOT EXISTS {database}.task_results (
  task STRING,
  task_id INT,
  version INT,
  period_start TIMESTAMP,
  series STRING,
  dims MAP<STRING, STRING>,
  results MAP<STRING, DOUBLE>,
  accumulators MAP<STRING, BINARY>,
  topic STRING,
  day STRING
) USING parquet PARTITIONED BY (topic, day) LOCATION '{warehouse}/{database}.db/task_results'
