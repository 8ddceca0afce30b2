-- What the platform itself sends, and what whoever runs it may send by `sluice sql`.
SET spark.sql.session.timeZone=UTC
CREATE DATABASE IF NOT EXISTS d
CREATE DATABASE IF NOT EXISTS d2 COMMENT 'x' LOCATION '{folder}/d2'
CREATE TABLE IF NOT EXISTS d.raw_files (offset BIGINT, line BINARY) USING parquet OPTIONS (recursiveFileLookup 'true') LOCATION '{folder}/raw'
CREATE OR REPLACE VIEW d.raw AS SELECT regexp_extract(_metadata.file_path, '/([^/]+)/[^/]+/[0-9]+/[0-9]+[.]parquet$', 1) AS topic, CAST(line AS STRING) AS line, timestamp_millis(offset) AS arrival, COALESCE(1, 0) AS x FROM d.raw_files
CREATE TABLE IF NOT EXISTS d.logs (host STRING, topic STRING, day STRING) USING parquet PARTITIONED BY (topic, day) LOCATION '{folder}/logs'
CREATE TABLE IF NOT EXISTS d.v__1 (`period` TIMESTAMP COMMENT 'x', `n` BIGINT COMMENT 'y') USING sluice.sql.Results OPTIONS (task '1', version '2') COMMENT 'c' TBLPROPERTIES ('sluice.table' = 'x', 'sluice.comment' = 'c')
CREATE VIEW d.v COMMENT 'c' TBLPROPERTIES ('sluice.table' = 'x') AS TABLE d.v__1
ALTER VIEW d.v AS TABLE d.v__1
ALTER VIEW d.v SET TBLPROPERTIES ('comment' = 'c', 'sluice.table' = 'x')
SELECT * FROM d.v
SELECT topic, line FROM d.raw
SHOW TABLE EXTENDED IN d LIKE 'v|v_*'
ALTER TABLE d.logs ADD COLUMNS (line_in_record INT)
ALTER TABLE d.logs ADD IF NOT EXISTS PARTITION (topic = 'a', day = '2015-05-17') LOCATION '{folder}/logs/x'
ALTER TABLE d.logs PARTITION (topic = 'a', day = '2015-05-17') SET LOCATION '{folder}/logs/y'
ALTER TABLE d.logs DROP IF EXISTS PARTITION (topic = 'a', day = '2015-05-17')
INSERT INTO d.logs PARTITION (topic = 'a', day = '2015-05-17') VALUES ('before', 1)
INSERT INTO d.logs VALUES ('before', 1, 'a', 'b')
INSERT INTO d.logs (host, topic, day) SELECT host, 'a', 'b' FROM d.logs
INSERT OVERWRITE d.logs PARTITION (topic, day) SELECT 'a', 1, 'b', 'c'
SHOW PARTITIONS d.logs
SHOW TBLPROPERTIES d.logs
ALTER TABLE d.logs SET TBLPROPERTIES ('sluice.catalogue' = 'x')
SHOW COLUMNS IN d.logs
DESCRIBE EXTENDED d.logs host
CREATE TABLE d.copy USING parquet AS SELECT * FROM d.logs
CREATE TABLE d.copy2 AS SELECT 1 AS a
ALTER TABLE d.copy RENAME TO d.copy3
TRUNCATE TABLE d.copy3
REFRESH TABLE d.copy3
MSCK REPAIR TABLE d.logs
ALTER TABLE d.copy3 SET TBLPROPERTIES ('comment' = 'x')
INSERT INTO d.logs SELECT 'a', CAST(1 AS BIGINT), 'b', 'c'
COMMENT ON TABLE d.copy3 IS 'x'
DROP TABLE d.copy3
DROP VIEW IF EXISTS d.raw
DROP TABLE IF EXISTS d.nothing
DROP DATABASE d CASCADE
SELECT DISTINCT _metadata.file_path FROM t WHERE host = 'a' AND day = '2015-05-17'
