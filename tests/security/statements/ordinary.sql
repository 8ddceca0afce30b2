-- Ordinary queries: everybody who may read lines may send them.
WITH a AS (SELECT 1 AS b) SELECT b FROM a UNION ALL SELECT count(*) FROM t
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r
SELECT status, count(*) AS n, round(100 * count(*) / sum(count(*)) OVER (), 2) FROM t GROUP BY status HAVING count(*) > 1 ORDER BY n DESC NULLS LAST LIMIT 10 OFFSET 2
SELECT status, host, grouping(status), grouping_id(), count(*) FROM t GROUP BY GROUPING SETS ((status, host), (status), ())
SELECT status, host, count(*) FROM t GROUP BY ROLLUP (status, host)
SELECT status, host, count(*) FROM t GROUP BY CUBE (status, host)
SELECT status, host, count(*) FROM t GROUP BY status, host WITH ROLLUP
SELECT count(*), host FROM t GROUP BY ALL ORDER BY ALL
SELECT count(DISTINCT host), count(DISTINCT host, path), sum(bytes) FILTER (WHERE status = 200), max(bytes) FROM t
SELECT host, row_number() OVER (PARTITION BY host ORDER BY event_time DESC), lag(bytes, 1, 0) OVER w, sum(bytes) OVER (PARTITION BY host ORDER BY event_time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), avg(bytes) OVER (ORDER BY event_time RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) FROM t WINDOW w AS (ORDER BY event_time)
SELECT first(bytes) IGNORE NULLS, last_value(bytes) OVER (ORDER BY event_time ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t GROUP BY bytes, event_time
SELECT * FROM t WHERE host IN (SELECT host FROM t WHERE status = 500)
SELECT * FROM t WHERE (host, path) IN (SELECT host, path FROM t) AND EXISTS (SELECT 1 FROM t AS u WHERE u.host = t.host) AND NOT EXISTS (SELECT 1 FROM t AS v WHERE v.host = t.host AND v.status > t.status)
SELECT (SELECT max(bytes) FROM t AS u WHERE u.host = t.host) AS biggest FROM t
SELECT a.host FROM t AS a JOIN t AS b ON a.host = b.host LEFT JOIN t AS c USING (host) CROSS JOIN t AS d
SELECT * FROM t AS a NATURAL JOIN t AS b
SELECT a.host FROM t AS a LEFT SEMI JOIN t AS b ON a.host = b.host
SELECT a.host FROM t AS a LEFT ANTI JOIN t AS b ON a.host = b.host
SELECT a.host FROM t AS a FULL OUTER JOIN t AS b ON a.host <=> b.host RIGHT JOIN t AS c ON c.host = a.host
SELECT * FROM t, LATERAL (SELECT t.bytes + 1 AS more)
SELECT host, word FROM t LATERAL VIEW explode(split(path, '/')) x AS word
SELECT host, word FROM t LATERAL VIEW OUTER posexplode(split(path, '/')) x AS at, word
SELECT host, w.* FROM t, LATERAL explode(split(path, '/')) AS w(word)
SELECT * FROM t LATERAL VIEW json_tuple(path, 'a', 'b') j AS a, b
SELECT explode(map('a', 1))
SELECT stack(2, 1, 2, 3)
SELECT posexplode(array(1)) AS (at, word)
SELECT event_time + INTERVAL '1' MONTH, event_time - INTERVAL '1-2' YEAR TO MONTH FROM t
VALUES (current_date(), upper('a'))
SELECT * FROM t LIMIT ALL
SHOW COLUMNS IN a_view
SHOW CREATE TABLE a_view
SHOW TBLPROPERTIES a_view
DESCRIBE EXTENDED a_view
SELECT '${env:HOME}', '${system:user.name}', '${hiveconf:x}', '${spark.master}'
SELECT inline(array(struct(1, 'a'), struct(2, 'b')))
SELECT * FROM (SELECT status, host, bytes FROM t) PIVOT (sum(bytes) AS s, count(*) AS c FOR status IN (200 AS ok, 404))
SELECT * FROM (SELECT host, bytes, status FROM t) UNPIVOT (value FOR name IN (bytes, status))
SELECT * FROM (SELECT host, bytes AS a, bytes AS b FROM t) UNPIVOT INCLUDE NULLS ((value) FOR name IN ((a), (b)))
SELECT host FROM t INTERSECT SELECT path FROM t
SELECT host FROM t INTERSECT ALL SELECT path FROM t
SELECT host FROM t EXCEPT SELECT path FROM t
SELECT host FROM t EXCEPT ALL SELECT path FROM t
SELECT host FROM t MINUS SELECT path FROM t
SELECT host FROM t UNION DISTINCT SELECT path FROM t
SELECT DISTINCT host FROM t ORDER BY 1
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(x, y)
VALUES (1, 2), (3, 4)
TABLE t
FROM t SELECT host
SELECT * EXCEPT (host) FROM t
SELECT t.* FROM t
SELECT CASE WHEN status >= 500 THEN 'bad' WHEN status >= 400 THEN 'odd' ELSE 'good' END, CASE status WHEN 200 THEN 1 ELSE 0 END, if(status = 200, 1, 0), iff FROM (SELECT *, 1 AS iff FROM t)
SELECT CAST('2015-05-20' AS DATE), DATE '2015-05-20', TIMESTAMP '2015-05-20 10:00:00', try_cast('x' AS INT), '1'::int, CAST(bytes AS DECIMAL(10, 2)), CAST(host AS BINARY), CAST(array(1) AS ARRAY<STRING>) FROM t
SELECT event_time + INTERVAL 1 DAY, event_time - INTERVAL '1 2' DAY TO HOUR, event_time - event_time, date(event_time) - DATE '2015-01-01', date(event_time) + 1, date(event_time) - 1, date(event_time) + INTERVAL 1 MONTH, DATE '2015-01-01' - INTERVAL 2 YEAR, INTERVAL 1 HOUR * 2, INTERVAL 1 HOUR / 2, INTERVAL 1 YEAR * 2, INTERVAL 1 YEAR / 2, -INTERVAL 1 DAY, INTERVAL 1 MONTH + INTERVAL 1 YEAR, date(event_time) + INTERVAL 3 HOURS FROM t
SELECT make_interval(1) + TIMESTAMP '2015-01-01 00:00:00', make_interval(1) * 2, make_interval(1) / 2, make_interval(0,0,0,1) + DATE '2015-01-01'
SELECT extract(HOUR FROM event_time), extract(YEAROFWEEK FROM event_time), extract(SECOND FROM event_time), date_part('doy', event_time), extract(DAYS FROM INTERVAL 5 DAYS), extract(YEAR FROM INTERVAL 1 YEAR), extract(MINUTE FROM INTERVAL 5 MINUTES), extract(SECOND FROM INTERVAL 5 SECONDS) FROM t
SELECT extract(HOUR FROM INTERVAL 5 HOURS), extract(HOUR FROM make_interval(1)), extract(DAY FROM make_interval(1)), extract(YEAR FROM make_interval(1)), extract(MONTH FROM make_interval(1)), extract(MINUTE FROM make_interval(1)), extract(SECOND FROM make_interval(1))
SELECT timestampadd(HOUR, 1, event_time), timestampdiff(HOUR, event_time, event_time), dateadd(DAY, 1, event_time), datediff(HOUR, event_time, event_time), date_add(date(event_time), 1) FROM t
SELECT host LIKE 'a%', host NOT LIKE 'a%', host RLIKE 'a', host ILIKE 'A%', host LIKE ANY ('a%', 'b%'), host LIKE ALL ('a%', 'b%'), host NOT LIKE ALL ('a', 'b'), host NOT LIKE ANY ('a', 'b'), host LIKE SOME ('a'), host LIKE '%a!_' ESCAPE '!', host NOT IN ('a', 'b'), host IN ('a'), bytes BETWEEN 1 AND 2, bytes NOT BETWEEN 1 AND 2, host IS NULL, host IS NOT NULL, host IS DISTINCT FROM path, host IS NOT DISTINCT FROM path, (bytes > 1) IS TRUE, (bytes > 1) IS NOT FALSE, (bytes > 1) IS UNKNOWN, (bytes > 1) IS NOT UNKNOWN, NOT (bytes > 1), ! (bytes > 1), bytes = 1 OR bytes != 2 AND bytes <> 3 FROM t
SELECT 1 + 2 - 3 * 4 / 5 % 6, 7 DIV 2, - bytes, + bytes, ~ status, status & 1, status | 1, status ^ 1, status << 1, status >> 1, status >>> 1, 'a' || 'b', array(1) || array(2), bytes / 0.5, 1.5BD * 2, 1e3, 10L, 1.0F FROM t
SELECT substring('abc' FROM 1 FOR 2), substr('abc', 1), position('a' IN 'abc'), trim(BOTH 'a' FROM 'abca'), trim(LEADING FROM ' a'), trim(TRAILING 'a' FROM 'ba'), overlay('abc' PLACING 'x' FROM 2), overlay('abc' PLACING 'x' FROM 2 FOR 1), left('abc', 1), char_length('abc'), 'a' COLLATE UTF8_LCASE
SELECT transform(array(1, 2), x -> x + 1), filter(array(1, 2), x -> x > 1), aggregate(array(1, 2), 0, (a, x) -> a + x), aggregate(array(1, 2), 0, (a, x) -> a + x, a -> a * 2), exists(array(1), x -> x = 1), forall(array(1), x -> x = 1), zip_with(array(1), array(2), (x, y) -> x + y), map_filter(map(1, 2), (k, v) -> k > 0), transform_keys(map(1, 2), (k, v) -> k + 1), transform_values(map(1, 2), (k, v) -> v + 1), map_zip_with(map(1, 2), map(1, 3), (k, a, b) -> a + b), array_sort(array(2, 1), (l, r) -> l - r), sort_array(array(2, 1)), transform(array(1, 2), (x, i) -> x + i)
SELECT array(1, 2)[0], map('a', 1)['a'], struct(1 AS a).a, named_struct('a', array(struct(1 AS b))).a.b, (array(struct(1 AS b))).b, element_at(array(1), 1)
SELECT get_json_object('{"a": 1}', '$.a'), from_json('{"a": 1}', 'a INT').a, from_json('{"a": 1}', 'a INT', map('mode', 'PERMISSIVE')), to_json(struct(1 AS a)), schema_of_json('{"a": 1}'), from_json('{"a": 1}', schema_of_json('{"a": 2}')), parse_json('{"a": 1}'):a::int, from_csv('1;2', 'a INT, b INT', map('sep', ';')), to_csv(struct(1, 2)), json_object_keys('{}')
SELECT percentile(bytes, 0.5), percentile_approx(bytes, 0.5), percentile_cont(0.5) WITHIN GROUP (ORDER BY bytes), percentile_disc(0.5) WITHIN GROUP (ORDER BY bytes DESC), mode() WITHIN GROUP (ORDER BY bytes), median(bytes), approx_count_distinct(host), listagg(host, ',') WITHIN GROUP (ORDER BY host), string_agg(host, ','), collect_set(host), collect_list(host), max_by(host, bytes), stddev(bytes), corr(bytes, status), any_value(host), count_if(status = 200), bool_or(status = 200), every(status = 200), histogram_numeric(bytes, 5), try_sum(bytes), try_avg(bytes), avg(INTERVAL 1 DAY), sum(INTERVAL 1 DAY) FROM t
SELECT current_date, current_date(), current_timestamp, now(), current_timezone(), localtimestamp(), unix_timestamp(), to_timestamp('2015', 'yyyy'), from_unixtime(0), date_trunc('HOUR', event_time), trunc(event_time, 'MM'), to_date('2015-01-01'), date_format(event_time, 'yyyy'), window(event_time, '1 hour'), current_database(), current_schema(), current_catalog() FROM t
SELECT window.start, count(*) FROM t GROUP BY window(event_time, '1 hour')
SELECT window.start, count(*) FROM t GROUP BY window(event_time, '1 hour', '15 minutes')
SELECT session_window.start, count(*) FROM t GROUP BY session_window(event_time, '1 hour')
SELECT coalesce(host, 'x'), nvl(host, 'x'), nvl2(host, 'a', 'b'), nullif(status, 200), ifnull(host, 'x'), greatest(1, 2), least(1, 2), typeof(1), uuid(), rand(), rand(1), randn(), monotonically_increasing_id(), hash(host), xxhash64(host), md5(host), sha2(host, 256) FROM t
SELECT regexp_extract(path, '(a)(b)', 1), regexp_replace(path, 'a', 'b'), regexp_like(path, 'a'), split(path, '/')[1], split_part(path, '/', 1), parse_url('http://a/b?c=d', 'QUERY', 'c'), try_parse_url('x', 'HOST'), url_decode('a%20b'), url_encode('a b'), concat_ws(',', 'a', array('b')), lpad('a', 3, ' '), rpad('a', 3), lpad(CAST('a' AS BINARY), 3, CAST('b' AS BINARY)), format_number(1234.5, 2), format_string('%d', 1), printf('%s', 'a'), initcap('a b'), translate('abc', 'a', 'b'), reverse('abc'), repeat('a', 2), contains('abc', 'b'), startswith('abc', 'a'), to_number('1', '9'), to_char(1, '9'), decode(status, 200, 'ok', 'bad'), decode(CAST('a' AS BINARY), 'UTF-8'), encode('a', 'UTF-8'), levenshtein('a', 'b'), soundex('a'), ascii('a') FROM t
SELECT * FROM t TABLESAMPLE (10 ROWS)
SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (1)
SELECT * FROM range(10)
SELECT * FROM range(0, 10, 2) AS r(n)
SELECT * FROM t AS x(a, b, c, d, e, f)
SELECT host, sum(bytes) AS s, s + 1 AS more FROM t GROUP BY host
SELECT host FROM t DISTRIBUTE BY host SORT BY host
SELECT sum(bytes) FROM t WHERE date(event_time) = DATE '2015-05-20' AND hour(event_time) IN (1, 2)
SELECT date(event_time) AS d, sum(bytes) FROM t GROUP BY d ORDER BY d
SELECT dims['path'], results['count'] FROM task_results WHERE day >= '2015-05-19'
SELECT count(*) FROM (SELECT 1 UNION SELECT 2) WHERE 1 = 1
SELECT max(struct(bytes, host)).host FROM t
SELECT * FROM a_view
SELECT host AS `a b` FROM t WHERE `host` = "x"
SELECT sequence(DATE '2015-01-01', DATE '2015-01-10', INTERVAL 1 DAY), sequence(1, 3), explode(array(1, 2))
SELECT ceil(1.5), floor(1.5), round(1.5), bround(1.5), ceil(1.55, 1), floor(1.55, 1), pow(2, 3), sqrt(2), log(2, 8), ln(2), exp(1), abs(-1), sign(-1), mod(5, 2), pmod(-5, 2), width_bucket(1, 0, 10, 5), conv('10', 2, 10), hex(10), bin(10), try_divide(1, 0), try_add(1, 1), pi(), e()
SELECT * FROM t |> WHERE bytes > 1 |> AGGREGATE sum(bytes) AS s GROUP BY host |> EXTEND s + 1 AS m |> SELECT host, m |> ORDER BY m |> LIMIT 1
SELECT map_from_entries(array(struct('a', 1))), map_keys(map('a', 1)), map_concat(map('a', 1), map('b', 2)), str_to_map('a:1'), arrays_zip(array(1), array(2)), flatten(array(array(1))), array_distinct(array(1)), array_contains(array(1), 1), slice(array(1), 1, 1), array_join(array('a'), ','), cardinality(array(1)), size(map('a', 1)), array_agg(1)
SELECT count(*) FROM t WHERE host = 'a' GROUP BY date_trunc('DAY', event_time) ORDER BY date_trunc('DAY', event_time)
SELECT ntile(4) OVER (ORDER BY bytes), rank() OVER (ORDER BY bytes), dense_rank() OVER (ORDER BY bytes), percent_rank() OVER (ORDER BY bytes), cume_dist() OVER (ORDER BY bytes), nth_value(bytes, 2) OVER (ORDER BY bytes), lead(bytes) OVER (ORDER BY bytes), count(*) OVER () FROM t
EXPLAIN SELECT * FROM t
EXPLAIN EXTENDED SELECT * FROM t
EXPLAIN FORMATTED SELECT * FROM t
DESCRIBE t
DESCRIBE EXTENDED t
DESCRIBE EXTENDED t host
DESCRIBE QUERY SELECT * FROM t
DESCRIBE FUNCTION sum
DESCRIBE FUNCTION EXTENDED sum
DESCRIBE DATABASE default
SHOW TABLES
SHOW TABLES LIKE 't*'
SHOW TABLE EXTENDED LIKE 't*'
SHOW TABLE EXTENDED IN default LIKE 't*'
SHOW DATABASES
SHOW SCHEMAS
SHOW CATALOGS
SHOW VIEWS
SHOW COLUMNS IN t
SHOW CREATE TABLE task_results
SHOW TBLPROPERTIES task_results
SHOW FUNCTIONS LIKE 'sum'
SHOW PARTITIONS task_results
SHOW CURRENT NAMESPACE
USE default
USE SCHEMA default
SET spark.sql.session.timeZone
SET spark.sql.session.timeZone=Europe/Berlin
SET TIME ZONE 'UTC'
