"""Spark's own ports accept only processes that know the application's secret."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from sluice.runtime.jvm import QUICK
from sluice.runtime.settings import Settings, make_secret, read_secret
from sluice.spark.session import session, session_config
from sluice.stack.daemons.hive import configure_spark
from sluice.stack.environment import SPARK_SECRET, spark_defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of one slot that needs no daemon."""
    before = dict(os.environ)
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK)
    settings = Settings(instance="test", home=tmp_path_factory.mktemp("home"))
    config = {"spark.master": "local[1]", "spark.sql.catalogImplementation": "in-memory"}
    made = session(settings, "authentication", config=config)
    yield made
    made.stop()
    os.environ.clear()
    os.environ.update(before)


def look_up(spark: SparkSession, authenticate: bool) -> Any:
    """Connect to the driver's port as an executor would, and look up one of its endpoints.

    This client lives in the driver's JVM, so it finds the secret if it authenticates, but uses the port.
    """
    jvm: Any = spark._jvm
    package = jvm.org.apache.spark
    conf = package.SparkConf(False).set("spark.rpc.lookupTimeout", "20s")
    conf.set("spark.authenticate", str(authenticate).lower())
    no_key, no_file = (getattr(package.SecurityManager, f"$lessinit$greater$default${n}")() for n in (2, 3))
    security = package.SecurityManager(conf, no_key, no_file)
    client = package.rpc.RpcEnv.create("client", "127.0.0.1", 0, conf, security, True)
    try:
        port = int(spark.sparkContext.getConf().get("spark.driver.port", ""))
        address = package.rpc.RpcAddress("127.0.0.1", port)
        return client.setupEndpointRef(address, "MapOutputTracker").name()
    finally:
        client.shutdown()


@pytest.mark.slow
def test_the_driver_answers_only_who_knows_the_secret(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError, match="Expected SaslMessage"):
        look_up(spark, authenticate=False)
    assert look_up(spark, authenticate=True) == "MapOutputTracker"


@pytest.mark.slow
def test_a_job_runs_and_its_large_results_pass(spark: SparkSession) -> None:
    """A result of more than 1 MiB does not come with the task's end but is fetched."""
    rows = spark.range(0, 300_000, 1, 2).selectExpr("id", "cast(id AS string) AS text").toArrow()
    assert rows.num_rows == 300_000


@pytest.mark.parametrize("master", ["local[2]", "local[*]", "yarn", "k8s://https://127.0.0.1:6443"])
def test_every_session_authenticates(master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SPARK__MASTER", master)
    settings = Settings(instance="test", home=tmp_path)
    configure_spark(settings)
    lines = spark_defaults(settings).read_text().splitlines()
    wanted = ["spark.authenticate"] + ["spark.network.crypto.enabled"] * (not master.startswith("local"))
    assert {f"{name} true" for name in wanted} <= set(lines)
    assert session_config(settings).items() >= dict.fromkeys(wanted, "true").items()


def test_a_standalone_cluster_has_a_secret_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_SPARK__MASTER", "spark://127.0.0.1:7077")
    settings = Settings(instance="test", home=tmp_path)
    configure_spark(settings)
    assert "spark.authenticate false\n" in spark_defaults(settings).read_text()
    # Said by the session, too: the file may have been written for another master.
    assert session_config(settings)["spark.authenticate"] == "false"
    make_secret(tmp_path, "spark")
    configure_spark(settings)
    text = spark_defaults(settings).read_text()
    assert f"{SPARK_SECRET} {read_secret(tmp_path, 'spark')}\n" in text
    assert "spark.authenticate true\n" in text
    # PySpark puts a session's own settings onto a command line, which every user can read.
    assert SPARK_SECRET not in session_config(settings)
    assert session_config(settings)["spark.authenticate"] == "true"
