"""Attacks on the SQL endpoint: by strangers, by an analyst, and by the platform's own user."""

from __future__ import annotations

import csv
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyhive import exc, hive
from TCLIService.ttypes import TOperationState
from thrift.transport.TTransport import TTransportException

from sluice.runtime.jvm import java
from sluice.runtime.settings import Settings
from sluice.stack.environment import spark_home
from sluice.stack.users import Role, UserError, Users
from sluice.storage.hive import connect

pytestmark = pytest.mark.stack

NOBODY_MAY = (
    "SELECT TRANSFORM(1) USING 'id'",
    "SELECT * FROM (SELECT TRANSFORM(1) USING 'cat' AS (a string)) t WHERE a IN (SELECT '1')",
    "SELECT reflect('java.lang.System', 'getProperty', 'user.name')",
    "SELECT java_method('java.lang.System', 'getenv', 'PATH')",
    "SELECT try_reflect('java.lang.System', 'getProperty', 'user.name')",
    "SELECT 1 WHERE (SELECT reflect('java.lang.System', 'getProperty', 'user.name')) IS NOT NULL",
    "ADD JAR '/tmp/evil.jar'",
    "ADD FILE '/etc/passwd'",
    "ADD ARCHIVE '/tmp/evil.zip'",
    "SELECT * FROM text.`file:///etc/passwd`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM parquet.`hdfs:///x`",
    "CREATE FUNCTION evil AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect'",
    "CREATE TEMPORARY FUNCTION evil AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFReflect'",
    "INSERT OVERWRITE LOCAL DIRECTORY '/tmp/evil' SELECT 1",
    "INSERT OVERWRITE DIRECTORY 'file:///tmp/evil' USING csv SELECT 1",
    "LOAD DATA LOCAL INPATH '/etc/passwd' INTO TABLE reconciliations",
    "CREATE EXTERNAL TABLE evil (a string) STORED AS TEXTFILE LOCATION 'file:///etc'",
    "CREATE TABLE evil (a string) USING text LOCATION '\\u0066ile:///tmp/evil'",
    "CREATE TABLE evil USING text OPTIONS (path 'FILE:///tmp/evil') AS SELECT 'a'",
    "CREATE TEMPORARY VIEW evil USING text OPTIONS (path 'file:///etc/passwd')",
    "SELECT * FROM sluice.`task`",
    "ALTER TABLE logs ADD PARTITION (topic = 'evil', day = 'x') LOCATION 'file:///etc'",
    "CREATE DATABASE evil LOCATION 'file:///tmp/evil'",
    "EXECUTE IMMEDIATE \"SELECT reflect('java.lang.System', 'getProperty', 'user.name')\"",
)
#: Options of a table become settings of the file system, and name its class.
OPTIONS = (
    "SELECT * FROM {} WITH ('fs.hdfs.impl' = 'java.lang.Object', 'fs.hdfs.impl.disable.cache' = 'true')",
    "SELECT 1 FROM (SELECT 1 FROM {} WITH ('fs.hdfs.impl' = 'org.apache.hadoop.fs.RawLocalFileSystem'))",
    "EXPLAIN SELECT * FROM {} WITH ('mergeSchema' = 'true')",
)
#: How statements are refused: by the guard, or by Spark itself where files cannot be queried.
REFUSALS = ("not allowed", "no files", "TABLE_OR_VIEW_NOT_FOUND", "UNSUPPORTED")
AN_ANALYST_MAY_NOT = (
    "DROP TABLE logs",
    "TRUNCATE TABLE reconciliations",
    "DELETE FROM reconciliations",
    "INSERT INTO reconciliations (topic) VALUES ('evil')",
    "CREATE TABLE evil (a string)",
    "CREATE TABLE evil USING parquet AS SELECT 1",
    "CREATE VIEW evil AS SELECT 1",
    "CREATE TEMPORARY VIEW evil USING jdbc OPTIONS (url 'jdbc:postgresql://127.0.0.1/x', dbtable 'y')",
    "CREATE TABLE evil (period TIMESTAMP) USING sluice.sql.Results",
    "CREATE TEMPORARY VIEW evil (period TIMESTAMP) USING sluice OPTIONS (task '1', version '1')",
    "DROP TABLE results",
    "ALTER TABLE logs SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE logs DROP PARTITION (topic = 'logs')",
    "CREATE DATABASE evil",
    "DROP DATABASE sluice CASCADE",
    "SET spark.sql.runSQLOnFiles=true",
    "SET spark.sql.variable.substitute=true",
    "SET spark.sql.session.timeZone=${env:HOME}",
    "SET",
    "CACHE TABLE logs",
    "EXECUTE IMMEDIATE 'DROP TABLE logs'",
    "EXPLAIN ANALYZE DROP TABLE logs",
    "WITH a AS (SELECT 'evil' AS topic) INSERT INTO reconciliations (topic) SELECT topic FROM a",
)
A_VIEWER_MAY_NOT = (
    "SELECT count(*) FROM logs",
    "SELECT line FROM raw",
    "TABLE raw_files",
    "WITH a AS (SELECT * FROM logs) SELECT count(*) FROM a",
    "SELECT * FROM task_results WHERE EXISTS (SELECT 1 FROM logs)",
    "SELECT r.task FROM results AS r JOIN raw ON true",
    "DESCRIBE EXTENDED logs client",
)
A_VIEWER_MAY = (
    "SELECT count(*) FROM task_results",
    "SELECT count(*) FROM reconciliations",
    "SELECT task, count(*) FROM results WHERE task = 'nobody' GROUP BY task",
    "DESCRIBE logs",
    "SHOW PARTITIONS logs",
    "SHOW CREATE TABLE results",
)
AN_ANALYST_MAY = (
    "SELECT count(*) FROM logs",
    "WITH a AS (SELECT 1 AS b) SELECT b FROM a UNION ALL SELECT count(*) FROM task_results",
    "SELECT explode(sequence(1, 3))",
    "SHOW TABLES",
    "SHOW DATABASES",
    "DESCRIBE logs",
    "DESCRIBE EXTENDED task_results",
    "SHOW COLUMNS IN logs",
    "SHOW PARTITIONS logs",
    "SELECT task, count(*) FROM results WHERE task = 'nobody' GROUP BY task",
    "DESCRIBE EXTENDED results",
    "SHOW CREATE TABLE results",
    "EXPLAIN SELECT * FROM logs",
    "USE sluice",
    "SET spark.sql.session.timeZone",
    "SET spark.sql.session.timeZone=Europe/Berlin",
)


@pytest.fixture(scope="module")
def analyst(stack: Settings) -> Iterator[dict[str, str]]:
    with somebody(stack, "user") as login:
        yield login


@pytest.fixture(scope="module")
def viewer(stack: Settings) -> Iterator[dict[str, str]]:
    with somebody(stack, "viewer") as login:
        yield login


@contextmanager
def somebody(stack: Settings, role: Role) -> Iterator[dict[str, str]]:
    name = f"{role}-{uuid.uuid4().hex[:8]}"
    yield {"user": name, "password": Users(stack).add(name, role)}
    with suppress(UserError):  # a test removed it
        Users(stack).remove(name)


def session(stack: Settings, **login: str) -> Any:
    return connect(stack.hive.model_copy(update=login), 60, database=stack.hive.database)


def refused(connection: Any, statement: str) -> str:
    """The message with which the statement is refused."""
    with closing(connection.cursor()) as cursor, pytest.raises(exc.OperationalError) as error:
        run(cursor, statement)
    return str(error.value)


def run(cursor: Any, statement: str) -> None:
    """Execute the statement and fetch its rows, if it has any."""
    cursor.execute(statement)
    if cursor.description is not None:
        cursor.fetchall()


@pytest.mark.parametrize(
    "login", [{"password": "wrong"}, {"user": "nobody"}, {"user": ""}, {"auth": "NOSASL"}], ids=str
)
def test_nobody_enters_without_the_right_password(stack: Settings, login: dict[str, str]) -> None:
    with pytest.raises((TTransportException, exc.Error, OSError, ValueError)):
        session(stack, **login)


def test_no_statement_runs_code_or_reads_the_server_s_files(
    stack: Settings, analyst: dict[str, str], viewer: dict[str, str]
) -> None:
    for login in ({}, analyst, viewer):
        with closing(session(stack, **login)) as connection:
            for statement in NOBODY_MAY:
                said = refused(connection, statement)
                assert "uid=" not in said
                assert any(word in said for word in REFUSALS), (statement, said[:500])
    assert not os.path.exists("/tmp/evil")


def test_a_variable_of_the_server_stays_a_text(stack: Settings, viewer: dict[str, str]) -> None:
    texts = ("${env:HOME}", "${system:user.name}", "${hiveconf:a}", "${spark.driver.host}", "${HOME}")
    for login in ({}, viewer):
        with closing(session(stack, **login)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT " + ", ".join(f"'{text}'" for text in texts))
            assert cursor.fetchall() == [texts]


def test_xml_opens_no_file(stack: Settings, viewer: dict[str, str], tmp_path: Path) -> None:
    """The schema of a local user reads any other file of the server, and its text is in the message."""
    tmp_path.chmod(0o755)
    (tmp_path / "secret").write_text("4711")
    (tmp_path / "a.dtd").write_text(
        f'<!ENTITY % f SYSTEM "file://{tmp_path}/secret"><!ENTITY % a "<!ENTITY x \'%f;\'>">%a;'
    )
    (tmp_path / "a.xsd").write_text(
        f'<!DOCTYPE s SYSTEM "file://{tmp_path}/a.dtd"><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
        '<xs:element name="+&x;" type="xs:string"/></xs:schema>'
    )
    given = f"map('rowValidationXSDPath', 'file://{tmp_path}/a.xsd')"
    with closing(session(stack, **viewer)) as connection:
        for call in (f"from_xml('<p/>', 'a INT', {given})", f"schema_of_xml('<p/>', {given})"):
            said = refused(connection, f"SELECT {call}")
            assert "is not allowed here: XML can name files" in said
            assert "4711" not in said
        said = refused(connection, "SELECT from_json('1', 'a INT', map('rowValidationXSDPath', 'x'))")
        assert "the option rowValidationXSDPath of from_json is not allowed" in said


def test_a_table_takes_no_options(stack: Settings, viewer: dict[str, str]) -> None:
    for login, table in (({}, "logs"), (viewer, "logs"), (viewer, "task_results")):
        with closing(session(stack, **login)) as connection:
            for statement in OPTIONS:
                said = refused(connection, statement.format(table))
                assert "option" in said, said[:500]
                assert "not allowed" in said, said[:500]
                assert "ClassCast" not in said


def test_a_viewer_reads_results_and_no_lines(stack: Settings, viewer: dict[str, str]) -> None:
    with closing(session(stack, **viewer)) as connection:
        for statement in A_VIEWER_MAY_NOT:
            said = refused(connection, statement)
            assert "the role viewer may read results only" in said, (statement, said[:500])
        with closing(connection.cursor()) as cursor:
            for statement in A_VIEWER_MAY:
                run(cursor, statement)


def test_a_new_role_holds_at_once_and_ends_open_sessions(stack: Settings) -> None:
    with somebody(stack, "viewer") as login:
        with closing(session(stack, **login)) as connection:
            assert "the role viewer" in refused(connection, "SELECT count(*) FROM logs")
            Users(stack).set_role(login["user"], "user")
            assert "your log-in is over" in refused(connection, "SELECT 1")
        with closing(session(stack, **login)) as connection:
            with closing(connection.cursor()) as cursor:
                run(cursor, "SELECT count(*) FROM logs")
            Users(stack).set_role(login["user"], "viewer")
            assert "your log-in is over" in refused(connection, "SELECT count(*) FROM logs")


def test_a_session_brings_no_settings_that_load_code(
    stack: Settings, analyst: dict[str, str], tmp_path: Path
) -> None:
    """Settings can be given when a session is opened, without a statement."""
    evil = "spark.sql.catalog.evil"
    catalog = {
        evil: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{evil}.url": f"jdbc:derby:{tmp_path}/evil;create=true",
        f"{evil}.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    where = stack.hive.model_copy(update=analyst)
    for given in (catalog, {"spark.sql.defaultCatalog": "evil"}, {"fs.evil.impl": "java.lang.Object"}):
        with pytest.raises((exc.Error, TTransportException), match="not allowed"):
            read_with(where, given)
    read_with(where, {"spark.sql.session.timeZone": "Europe/Berlin"})
    assert list(tmp_path.iterdir()) == []


def read_with(where: Any, configuration: dict[str, str]) -> None:
    """Open a session with these settings, as a JDBC driver does for those in its URL, and query."""
    given = {f"set:hiveconf:{name}": value for name, value in configuration.items()}
    with (
        closing(connect(where, 60, configuration=given)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        run(cursor, "SELECT * FROM evil.SYS.SYSTABLES" if len(configuration) > 1 else "SELECT 1")


def test_an_analyst_changes_nothing(stack: Settings, analyst: dict[str, str]) -> None:
    with closing(session(stack, **analyst)) as connection:
        for statement in AN_ANALYST_MAY_NOT:
            said = refused(connection, statement)
            assert any(word in said for word in ("only read", "PARSE_SYNTAX", "not allowed here")), said[:500]
        with closing(connection.cursor()) as cursor:
            cursor.execute("SHOW TABLES")
            assert {"logs", "task_results", "reconciliations"} <= {row[1] for row in cursor.fetchall()}
            cursor.execute("SELECT count(*) FROM reconciliations WHERE topic = 'evil'")
            assert cursor.fetchall() == [(0,)]


def test_an_analyst_reads_by_pyhive_also_asynchronously(stack: Settings, analyst: dict[str, str]) -> None:
    with closing(session(stack, **analyst)) as connection, closing(connection.cursor()) as cursor:
        for statement in AN_ANALYST_MAY:
            run(cursor, statement)
        for table in ("logs", "task_results"):
            cursor.execute(f"SELECT count(*) FROM {table}", async_=True)
            while cursor.poll().operationState in (
                TOperationState.INITIALIZED_STATE,
                TOperationState.PENDING_STATE,
                TOperationState.RUNNING_STATE,
            ):
                pass
            ((count,),) = cursor.fetchall()
            assert count >= 0


def test_pyhive_s_own_way_to_connect_works(stack: Settings, analyst: dict[str, str]) -> None:
    where = {"host": stack.hive.host, "port": stack.hive.port, "database": stack.hive.database}
    login = {"username": analyst["user"], "password": analyst["password"], "auth": "CUSTOM"}
    with closing(hive.connect(**where, **login)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


def test_an_analyst_reads_by_jdbc(stack: Settings, analyst: dict[str, str]) -> None:
    """Beeline sends its statements asynchronously, as BI tools do."""
    url = f"jdbc:hive2://{stack.hive.host}:{stack.hive.port}/{stack.hive.database}"
    beeline = [java(), "-cp", str(spark_home() / "jars" / "*"), "org.apache.hive.beeline.BeeLine"]
    login = ["-u", url, "-n", analyst["user"], "-p", analyst["password"]]
    queries = [f"SELECT count(*) AS n FROM {table};" for table in ("logs", "task_results")]
    done = subprocess.run(
        [*beeline, *login, "--outputformat=csv2", "--silent=true", "-e", queries[0], "-e", queries[1]],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counts = [row[0] for row in csv.reader(done.stdout.splitlines()) if row and row[0].isdigit()]
    assert len(counts) == 2, done.stdout[-500:]
