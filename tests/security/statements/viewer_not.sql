-- What shows lines, or what is in them: t holds lines. A viewer may not send it.
SELECT * FROM t
TABLE t
SELECT 1 FROM t
WITH a AS (SELECT host FROM t) SELECT 1 FROM a
SELECT 1 WHERE EXISTS (SELECT 1 FROM t)
SELECT (SELECT max(host) FROM t)
SELECT * FROM task_results JOIN t ON true
SELECT * FROM task_results WHERE task IN (SELECT host FROM t)
SELECT * FROM a_view
SELECT count(*) FROM t
DESCRIBE EXTENDED t host
DESCRIBE FORMATTED t host
EXPLAIN SELECT * FROM t
EXPLAIN COST SELECT * FROM t WHERE host = 'x'
DESCRIBE QUERY SELECT * FROM t
DESCRIBE t host
