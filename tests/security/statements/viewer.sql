-- What a viewer may send.
SELECT * FROM task_results
SELECT * FROM fine
DESCRIBE t
DESCRIBE EXTENDED t
DESCRIBE EXTENDED task_results task
SHOW PARTITIONS task_results
SHOW COLUMNS IN t
SHOW CREATE TABLE t
SHOW TABLES
EXPLAIN SELECT * FROM task_results
USE default
SET spark.sql.session.timeZone=Europe/Berlin
