"""A standalone Spark cluster on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from sluice.stack.environment import spark_home
from sluice_lab.waiting import SECONDS, until


@contextmanager
def cluster(
    environment: Mapping[str, str], directory: Path, address: str, page: int, workers: Sequence[str]
) -> Iterator[None]:
    """A cluster at this address with a worker of one core for each of `workers`.

    These say to which processors a worker and its children are bound: a list as `taskset` takes it, or
    nothing. The master's page is at port `page`; everything is logged to ``cluster.log``.
    """
    env = {**environment, "SPARK_PUBLIC_DNS": "127.0.0.1"}
    spark_class = str(spark_home() / "bin" / "spark-class")
    here = ["--host", "127.0.0.1", "--webui-port"]
    port = address.rsplit(":", 1)[1]
    commands = [[spark_class, "org.apache.spark.deploy.master.Master", "--port", port, *here, str(page)]]
    for number, processors in enumerate(workers):
        bound = ["taskset", "--cpu-list", processors] if processors else []
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker{number}")]
        worker = [spark_class, "org.apache.spark.deploy.worker.Worker", *limits, *here, "0", address]
        commands.append([*bound, *worker])

    def registered() -> bool:
        with suppress(httpx.HTTPError):
            state = httpx.get(f"http://127.0.0.1:{page}/json/", trust_env=False).json()
            return bool(state["aliveworkers"] == len(workers))
        return False

    started: list[subprocess.Popen[bytes]] = []
    try:
        with (directory / "cluster.log").open("ab") as out:
            for command in commands:
                started.append(subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT))
        until(registered)
        yield
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(SECONDS)
