-- Unique, parsed lines by the day of their event time (UTC). `line` has the very bytes of the log line. It is the
-- line `line_in_record` (from 0 on; null means 0) of the record at `kafka_offset`.
CREATE TABLE IF NOT EXISTS {database}.logs (
  host STRING,
  src_file STRING,
  src_offset BIGINT,
  kafka_partition INT,
  kafka_offset BIGINT,
  arrival TIMESTAMP,
  event_time TIMESTAMP,
  line STRING,
  client STRING,
  ident STRING,
  user_name STRING,
  method STRING,
  path STRING,
  protocol STRING,
  status INT,
  bytes BIGINT,
  referer STRING,
  agent STRING,
  line_in_record INT,
  topic STRING,
  day STRING
) USING parquet PARTITIONED BY (topic, day) LOCATION '{warehouse}/{database}.db/logs'
