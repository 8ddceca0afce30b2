-- What the tasks count, by the day of the line's event time (UTC). `series` is the escaped key that is also part of
-- the row key in HBase. By metric: `results` has the number that is compared, `texts` what a list metric prints
-- (JSON), `errors` the stated error of a sketched one. Accumulators are numbers of 8 bytes, little-endian, or
-- bytes of their own: a sketch, the digits of a sum, the state of a team's metric.
CREATE TABLE IF NOT EXISTS {database}.task_results (
  task STRING,
  task_id INT,
  version INT,
  period_start TIMESTAMP,
  series STRING,
  dims MAP<STRING, STRING>,
  results MAP<STRING, DOUBLE>,
  accumulators MAP<STRING, BINARY>,
  texts MAP<STRING, STRING>,
  errors MAP<STRING, DOUBLE>,
  topic STRING,
  day STRING
) USING parquet PARTITIONED BY (topic, day) LOCATION '{warehouse}/{database}.db/task_results'
