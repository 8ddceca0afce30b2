"""The DAGs as Airflow's DAG processor sees them."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.airflow_home import ROOT, prepare

prepare()  # before any import of airflow


@pytest.fixture(scope="session")
def load() -> Callable:
    """A folder's DagBag."""

    def load(folder: Path):
        from airflow.dag_processing.dagbag import DagBag

        return DagBag(folder)

    return load


@pytest.fixture(scope="session")
def bag(load: Callable):
    return load(ROOT / "dags")


# These reads do not count: Python reads source and byte code to import, and libraries read their own files.
CODE = (".py", ".pyc", ".so")
LIBRARIES = tuple({sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), "/usr/share/zoneinfo"})
EVENTS = {
    "open",
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
}


@pytest.fixture(scope="session")
def watched_io() -> Callable:
    """A context manager whose list fills with every open, socket and process in it."""
    watchers: list[list[str]] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watchers or event not in EVENTS:
            return
        target = str(arguments[0]) if arguments else ""
        if event == "open" and (target.endswith(CODE) or target.startswith(LIBRARIES) or target.isdigit()):
            return
        watchers[-1].append(f"{event} {arguments[1] if event == 'socket.connect' else target}")

    @contextmanager
    def watch() -> Iterator[list[str]]:
        seen: list[str] = []
        watchers.append(seen)
        try:
            yield seen
        finally:
            watchers.pop()

    sys.addaudithook(hook)
    return watch
