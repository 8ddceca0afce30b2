"""The settings of a job on another host: the platform's own, resolved, as a file of shell variables.

It holds the passwords that a job needs, so it is copied as the secrets of agents are: over SFTP, with mode
0600, and named by no command.
"""

from __future__ import annotations

import json
import shlex
from pathlib import PurePath

from sluice.runtime.jvm import SPARK_ANYWHERE, SPARK_CLASSES, SPARK_COMPILES_LATER
from sluice.runtime.settings import LOOPBACK, Settings

#: What no job needs, or has there otherwise: its own place, and secrets of other parts.
_PLACE = {"instance", "home", "root", "network", "bind_host", "hadoop_host", "metrics", "tls"}
_LEFT_OUT = dict.fromkeys(_PLACE | {"notifications", "airflow", "api", "login", "hive", "inherit"}, True) | {
    "postgres": {"airflow", "metastore"}
}
#: What an account may have for another Spark.
_NOT_OURS = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "HADOOP_CONF_DIR")


def environment(settings: Settings, home: PurePath, release: str, metrics: PurePath) -> str:
    """The file. settings: as they are there.

    home: the job's own folder. release: where Sluice is. metrics: where the team's are.
    """
    own = {"instance": settings.instance, "home": str(home), "root": release, "network": "host"}
    values = {**own, "bind_host": LOOPBACK, "metrics__path": str(metrics)}
    values |= settings.model_dump(mode="json", exclude=_LEFT_OUT)
    shown = {
        f"SLUICE_{name.upper()}": value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for name, value in sorted(values.items())
    }
    shown |= {"TZ": "UTC", "MALLOC_ARENA_MAX": "2", "PYSPARK_SUBMIT_ARGS": _spark(home, release)}
    lines = [f"unset {' '.join(_NOT_OURS)}\n"]
    return "".join(lines + [f"export {name}={shlex.quote(text)}\n" for name, text in shown.items()])


def _spark(home: PurePath, release: str) -> str:
    """How a driver's JVM is started. On this machine the instance's file of Spark properties says that."""
    archive = PurePath(release) / "var" / "lib" / SPARK_CLASSES.name
    options = [
        *SPARK_ANYWHERE,
        f"-XX:SharedArchiveFile={archive}",
        *SPARK_COMPILES_LATER,
        f"-Djava.io.tmpdir={home / 'spark' / 'tmp'}",
    ]
    return shlex.join(["--driver-java-options", " ".join(options), "pyspark-shell"])
