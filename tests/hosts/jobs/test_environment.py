"""A job on another host has the platform's settings, whatever its own release's file says."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path, PurePath

import pytest

from sluice.runtime.sections import Speed
from sluice.runtime.settings import TOLD, Settings, followed, make_secret, metrics_folder, newest
from sluice_hosts.jobs.environment import environment


def test_a_job_elsewhere_resolves_the_same_settings(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("postgres", "identity"):
        make_secret(settings.home, name)
    here = Settings(
        instance="test", home=settings.home, root=settings.root, port_base=29_000, network="private"
    )
    odd = here.postgres.model_copy(update={"user": "it's $HOME"})
    here = here.model_copy(update={"postgres": odd})
    file = tmp_path / "environment"
    (tmp_path / "metrics").mkdir()
    far = PurePath(tmp_path / "far")
    file.write_text(environment(here, far, "/opt/sluice", PurePath(tmp_path / "metrics")))
    told = subprocess.run(
        ["sh", "-c", f". {file}; env -0"], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    for line in filter(None, told.stdout.split("\0")):
        name, _, value = line.partition("=")
        if name.startswith("SLUICE_"):
            monkeypatch.setenv(name, value)
    there = Settings()
    for name in ("kafka", "hdfs", "hbase", "postgres", "spark", "archive", "limits", "port_base", "instance"):
        assert getattr(there, name) == getattr(here, name), name
    assert there.postgres.password == make_secret(settings.home, "postgres")
    assert there.kafka.identity_key == make_secret(settings.home, "identity")
    assert (there.home, there.root, there.private) == (tmp_path / "far", Path("/opt/sluice"), False)
    assert metrics_folder() == tmp_path / "metrics"


def test_it_gets_no_secret_that_it_does_not_need(settings: Settings) -> None:
    secret = make_secret(settings.home, "sql")
    here = Settings(instance="test", home=settings.home, root=settings.root, port_base=29_000)
    assert here.hive.password == secret
    assert secret not in environment(here, PurePath("/far"), "/opt/sluice", PurePath("/far/metrics"))


def test_a_setting_that_a_job_elsewhere_was_told_is_the_newest(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_SPEED", '{"drivers": 2, "workers": 5}')  # as it was when the job began
    there = Settings()
    assert newest(there) == there
    told = followed(there.model_copy(update={"speed": Speed(drivers=3)}))
    (there.home / TOLD).write_text(told)
    assert (newest(there).speed.drivers, newest(there).speed.workers) == (3, 5)
    (there.home / TOLD).write_text(told[:-3])
    assert newest(there) == there


def test_it_is_told_where_the_built_in_hdfs_and_hbase_listen_for_it(settings: Settings) -> None:
    here = Settings(
        instance="test",
        home=settings.home,
        root=settings.root,
        port_base=29_000,
        hadoop_host="10.0.0.1",
    )
    told = environment(here, PurePath("/far"), "/opt/sluice", PurePath("/far/metrics"))
    assert f'"namenode": "hdfs://10.0.0.1:{here.port("namenode")}"' in told
    assert f'"host": "10.0.0.1", "port": {here.port("hbase_thrift")}' in told
    assert "HADOOP_HOST" not in told, "nothing of the host itself listens there"


def test_spark_listens_at_the_hosts_own_loopback_and_takes_no_files_of_the_platforms_machine(
    settings: Settings,
) -> None:
    here = settings.model_copy(update={"bind_host": "10.0.0.1"})
    text = environment(here, PurePath("/far"), "/opt/sluice", PurePath("/far/metrics"))
    told = subprocess.run(
        ["sh", "-c", f"{text}\nenv"],
        capture_output=True,
        text=True,
        env={"SPARK_HOME": "/another", "PATH": os.environ["PATH"]},
        check=True,
    ).stdout.splitlines()
    assert "SLUICE_BIND_HOST=127.0.0.1" in told
    assert not [line for line in told if line.startswith("SPARK_HOME=")]
    (line,) = [line for line in told if line.startswith("PYSPARK_SUBMIT_ARGS=")]
    option, java, shell = shlex.split(line.partition("=")[2])
    assert (option, shell) == ("--driver-java-options", "pyspark-shell")
    assert {"-Duser.timezone=UTC", "-Djava.io.tmpdir=/far/spark/tmp"} <= set(java.split())
    assert "-XX:SharedArchiveFile=/opt/sluice/var/lib/spark-classes.jsa" in java
