-- The archive as it lies in HDFS. Spark looks through the whole tree and skips names that begin with "." or "_",
-- that is, files that are still being written.
CREATE TABLE IF NOT EXISTS {database}.raw_files (
  offset BIGINT,
  arrival BIGINT,
  host STRING,
  src_file STRING,
  src_offset BIGINT,
  forged BOOLEAN,
  line_in_record INT,
  unreadable STRING,
  last_offset BIGINT,
  line BINARY
) USING parquet OPTIONS (recursiveFileLookup 'true') LOCATION '{raw}'
