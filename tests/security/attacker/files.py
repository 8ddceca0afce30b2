"""The instance's directory, its socket, and what its processes leave in /tmp."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from .report import Outcome, Report
from .target import Target

MOST_PATHS = 5000
#: What the platform's programs make in /tmp. Other names there belong to other programs.
TEMPORARY = ("hsperfdata_", "jetty", "spark-", "blockmgr-", "hadoop", "hbase", "hive", "sluice", "airflow")
TEMPORARY += ("liblz4", "libzstd", "snappy", "libnetty", ".java_pid", "pymp-", "kafka", "derby", "flume")
GUESSES = ("secrets/postgres", "secrets/users.json", "secrets/airflow_jwt", "logs/airflow-api.log", "logs")
GUESSES += ("conf/supervisord.conf", "conf/metastore/metastore-site.xml", "airflow/airflow.cfg", "metrics")
GUESSES += ("airflow/connections.json", "data/postgres/PG_VERSION", "data/kafka", "data/namenode", "spark")
GUESSES += ("data/datanode", "run/speed_layer.json", "run/supervisord.pid", "frontends", "flume", "tmp")


def files(target: Target, report: Report) -> None:
    """List and read whatever is below the instance's directory, also by names that one can guess."""
    beside = target.home.with_name(f".{target.home.name}.network")
    guesses = [target.home / name for name in GUESSES]
    paths = [target.home, *_below(target.home), *guesses, beside, *_below(beside), beside / "gateway.json"]
    for path in dict.fromkeys(paths):
        _open(path, report, Outcome.READ)
    _supervisor(target.home / "run" / "supervisor.sock", report)


def temporary(target: Target, report: Report) -> None:
    """Read and write what lies in /tmp since the instance was started.

    Names and unpacked libraries are no harm: they are the same on every machine.
    """
    for path in sorted(Path("/tmp").iterdir()):
        if not path.name.startswith(TEMPORARY):
            continue
        for each in [path, *_below(path)]:
            try:
                if each.lstat().st_mtime < target.since or each.lstat().st_uid == os.getuid():
                    continue
            except OSError:
                continue
            harmless = each.is_dir() or each.name.startswith("lib")
            _open(each, report, Outcome.ANSWERED if harmless else Outcome.READ)


def _below(folder: Path) -> list[Path]:
    """What can be found without a permission, at most MOST_PATHS."""
    found: list[Path] = []
    for directory, folders, names in os.walk(folder):
        found += [Path(directory) / name for name in (*folders, *names)]
        if len(found) > MOST_PATHS:
            break
    return found


def _open(path: Path, report: Report, success: Outcome) -> None:
    """List a directory or read a file, and see whether it could be changed."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            os.listdir(path)
        elif stat.S_ISREG(mode):
            with path.open("rb") as file:
                file.read(1)
        else:
            return
    except FileNotFoundError:
        return
    except OSError as error:
        report.add("files", f"read {path}", Outcome.REFUSED, error.strerror)
    else:
        report.add("files", f"read {path}", success, f"mode {stat.S_IMODE(mode):o}")
    if os.access(path, os.W_OK):
        report.add("files", f"change {path}", Outcome.CHANGED)


def _supervisor(path: Path, report: Report) -> None:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError as error:
            report.add("files", "connect to the supervisor", Outcome.REFUSED, error.strerror)
            return
        probe.sendall(b"POST /RPC2 HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
        report.add("files", "connect to the supervisor", Outcome.EXECUTED, probe.recv(200))
