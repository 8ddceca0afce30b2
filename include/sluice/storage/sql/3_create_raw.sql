-- raw/<topic>/<topic id>/<partition>/<first offset>[-<next>].parquet: what the path says becomes columns.
-- A filter on them is applied to the list of files, before any is opened.
-- A Kafka record may have several lines: line_in_record says which of them a row is, from 0 on.
-- unreadable: why the records kafka_offset to last_offset could not be read; line is the beginning of their bytes.
-- forged: the record came with an identity that it could not prove, and is counted nowhere.
CREATE OR REPLACE VIEW {database}.raw AS
SELECT
  regexp_extract(_metadata.file_path, '/([^/]+)/[^/]+/[0-9]+/[0-9-]+[.]parquet$', 1) AS topic,
  regexp_extract(_metadata.file_path, '/([^/]+)/[0-9]+/[0-9-]+[.]parquet$', 1) AS topic_id,
  CAST(regexp_extract(_metadata.file_path, '/([0-9]+)/[0-9-]+[.]parquet$', 1) AS INT) AS kafka_partition,
  offset AS kafka_offset,
  timestamp_millis(arrival) AS arrival,
  host,
  src_file,
  src_offset,
  CAST(line AS STRING) AS line,
  COALESCE(forged, false) AS forged,
  COALESCE(line_in_record, 0) AS line_in_record,
  unreadable,
  last_offset
FROM {database}.raw_files
