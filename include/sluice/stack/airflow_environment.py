"""Airflow's configuration as environment variables.

Its connections are in `airflow_connections`.
"""

from __future__ import annotations

import os
from pathlib import Path

from sluice.runtime.settings import Settings, read_secret

AUTH_MANAGER = "sluice_airflow.auth.AuthManager"  # unless the environment names another
TOKEN_SECONDS = 8 * 3600  # a working day


def airflow_environment(settings: Settings) -> dict[str, str]:
    """AIRFLOW_HOME and the AIRFLOW__* variables; secrets that were not made yet are empty."""
    named = {
        f"AIRFLOW__{section}__{key}": str(value)
        for section, keys in _sections(settings).items()
        for key, value in keys.items()
    }
    return {"AIRFLOW_HOME": str(_home(settings)), **named}


def _home(settings: Settings) -> Path:
    return settings.home / "airflow"


def _sections(settings: Settings) -> dict[str, dict[str, object]]:
    return {
        "CORE": {
            "DAGS_FOLDER": settings.root / "dags",
            "PLUGINS_FOLDER": settings.root / "plugins",
            "EXECUTOR": "LocalExecutor",
            "PARALLELISM": 8,
            "MAX_ACTIVE_TASKS_PER_DAG": 8,
            "LOAD_EXAMPLES": False,
            "DAGS_ARE_PAUSED_AT_CREATION": False,
            "EXECUTION_API_SERVER_URL": f"{settings.airflow.url}/execution/",
            "AUTH_MANAGER": os.environ.get("AIRFLOW__CORE__AUTH_MANAGER") or AUTH_MANAGER,
            "FERNET_KEY": _fernet_key(settings),
        },
        "DATABASE": {
            "SQL_ALCHEMY_CONN": settings.postgres.url("airflow"),
            "SQL_ALCHEMY_POOL_SIZE": 5,
            "SQL_ALCHEMY_POOL_PRE_PING": True,
        },
        **_api(settings),
        "LOGGING": {
            "BASE_LOG_FOLDER": _home(settings) / "logs",
            "COLORED_CONSOLE_LOG": False,
        },
        "SCHEDULER": {
            "CREATE_CRON_DATA_INTERVALS": True,
            "SCHEDULER_HEALTH_CHECK_THRESHOLD": 30,
            "SCHEDULER_IDLE_SLEEP_TIME": 1,
        },
        "DAG_PROCESSOR": {
            "PARSING_PROCESSES": 1,
            # A changed file is noticed within half a minute; parsing unchanged files is a waste.
            "REFRESH_INTERVAL": 30,
            "MIN_FILE_PROCESS_INTERVAL": 300,
        },
        # After a kill -9 the next triggerer takes over the triggers once the last heartbeat is this old.
        "TRIGGERER": {"CAPACITY": 100, "JOB_HEARTBEAT_SEC": 3, "TRIGGERER_HEALTH_CHECK_THRESHOLD": 15},
        "USAGE_DATA_COLLECTION": {"ENABLED": False},
    }


def _api(settings: Settings) -> dict[str, dict[str, object]]:
    return {
        "API": {
            "HOST": settings.bind_host,
            "PORT": settings.port("airflow"),
            "BASE_URL": settings.airflow.url,
            "WORKERS": 1,
            "SECRET_KEY": read_secret(settings.home, "airflow_api"),
            # Its scripts would come from another site into pages where people are logged in.
            "ENABLE_SWAGGER_UI": False,
        },
        "API_AUTH": {
            "JWT_SECRET": read_secret(settings.home, "airflow_jwt"),
            "JWT_EXPIRATION_TIME": TOKEN_SECONDS,
            "JWT_CLI_EXPIRATION_TIME": TOKEN_SECONDS,
        },
    }


def _fernet_key(settings: Settings) -> str:
    """The key that encrypts the passwords of Airflow's connections, padded as Fernet demands.

    It is 32 bytes in base64.
    """
    secret = read_secret(settings.home, "airflow_fernet")
    return secret + "=" * (-len(secret) % 4)
