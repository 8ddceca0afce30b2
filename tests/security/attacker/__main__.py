"""Attack the instance that stdin describes (`target`); print what came of it as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from . import airflow, files, flume, hadoop, kafka, listeners, postgres, processes, thrift, zookeeper
from .report import Report
from .target import Target

SECONDS = 400.0
Attack = Callable[[Target, Report], None]
#: `processes` forks, so it runs alone and first.
ATTACKS: tuple[Attack, ...] = (
    airflow.airflow,
    listeners.scan,
    listeners.kernel,
    thrift.sql_endpoint,
    thrift.metastore,
    thrift.hbase_thrift,
    postgres.postgres,
    hadoop.pages,
    hadoop.webhdfs,
    hadoop.rpc,
    kafka.kafka,
    zookeeper.zookeeper,
    flume.flume,
    files.files,
    files.temporary,
)


def main() -> None:
    target, report = Target.of(json.load(sys.stdin)), Report()
    processes.processes(target, report)
    with ThreadPoolExecutor(len(ATTACKS)) as pool:
        running = {pool.submit(attack, target, report): attack for attack in ATTACKS}
        done, late = wait(running, SECONDS)
        failed = {running[each].__name__: repr(each.exception()) for each in done if each.exception()}
        failed |= {running[each].__name__: "took too long" for each in late}
        print(json.dumps({"findings": report.rows(), "failed": failed}), flush=True)
        if late:
            os._exit(1)


if __name__ == "__main__":
    main()
