"""A home for Airflow in this process, which is deleted at its end."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def prepare() -> None:
    """Let Airflow be imported with Sluice's plugins and DAGs: it reads its configuration then."""
    if "AIRFLOW_HOME" not in os.environ:
        os.environ["AIRFLOW_HOME"] = home = tempfile.mkdtemp(prefix="airflow-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(ROOT / "plugins")
    os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(ROOT / "dags")
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    if str(ROOT / "plugins") not in sys.path:
        sys.path.append(str(ROOT / "plugins"))
