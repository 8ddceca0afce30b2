"""Airflow's configuration: as environment variables, and its secrets in a file of mode 0600.

Its connections are in `airflow_connections`.
"""

from __future__ import annotations

import io
import os
from configparser import ConfigParser
from pathlib import Path
from urllib.parse import quote

from sluice.runtime import given_secrets
from sluice.runtime.files import write_whole
from sluice.runtime.sections import Postgres
from sluice.runtime.settings import Settings, read_secret
from sluice.stack import tls

AUTH_MANAGER = "sluice_airflow.auth.AuthManager"  # unless the environment names another
TOKEN_SECONDS = 8 * 3600  # a working day
#: How the names of all variables begin that are for Airflow.
PREFIX = "AIRFLOW_"


def airflow_environment(settings: Settings) -> dict[str, str]:
    """AIRFLOW_HOME, the AIRFLOW__* variables and what was given to Airflow so; no secret of its own."""
    hiding = _secret_names(settings)
    theirs = {name: value for name, value in _given(settings).items() if name not in hiding}
    named = {
        _name(section, key): str(value)
        for section, keys in _sections(settings).items()
        for key, value in keys.items()
    }
    own = {"AIRFLOW_HOME": str(_home(settings)), "AIRFLOW_CONFIG": str(_config(settings))}
    return {**theirs, **own, **named}


def auth_manager(settings: Settings) -> str:
    """The class that Airflow asks who may do what: Sluice's own, unless another was given to Airflow."""
    return _given(settings).get(_name("core", "auth_manager")) or AUTH_MANAGER


def write_config(settings: Settings) -> None:
    """Write the file with the secrets; what a person wrote into AIRFLOW_HOME/airflow.cfg stays in force."""
    config = ConfigParser(interpolation=None)
    config.read(_home(settings) / "airflow.cfg")
    for (section, key), value in _secrets(settings).items():
        if not config.has_section(section):
            config.add_section(section)
        config.set(section, key, value.replace("%", "%%"))  # Airflow interpolates
    text = io.StringIO()
    config.write(text)
    path = _config(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.getvalue(), 0o600)


def _given(settings: Settings) -> dict[str, str]:
    found = {**given_secrets.read(settings.home), **os.environ}
    return {name: value for name, value in found.items() if name.startswith(PREFIX)}


def _config(settings: Settings) -> Path:
    return settings.home / "conf" / "airflow" / "airflow.cfg"


def _name(section: str, key: str) -> str:
    return f"AIRFLOW__{section}__{key}".upper()


def _secret_names(settings: Settings) -> set[str]:
    """The variables that would hide the secrets in the file; Airflow gives its tasks one, by an old name."""
    keys = [*_secrets(settings), ("core", "sql_alchemy_conn"), ("webserver", "secret_key")]
    return {f"{_name(*key)}{suffix}" for key in keys for suffix in ("", "_CMD", "_SECRET")}


def _secrets(settings: Settings) -> dict[tuple[str, str], str]:
    """By section and key; those that were not made yet are empty."""
    database = settings.postgres.of(settings.postgres.airflow)
    return {
        ("core", "fernet_key"): _fernet_key(settings),
        ("database", "sql_alchemy_conn"): database.url(),
        ("database", "sql_alchemy_conn_async"): for_asyncpg(database),
        ("api", "secret_key"): read_secret(settings.home, "airflow_api"),
        ("api_auth", "jwt_secret"): read_secret(settings.home, "airflow_jwt"),
    }


def for_asyncpg(database: Postgres) -> str:
    """Its URL for SQLAlchemy with asyncpg, which knows libpq's parameters only within a `dsn`."""
    bare = database.model_copy(update={"root_certificate": ""}).url("postgresql+asyncpg")
    if not database.parameters:
        return bare
    return f"{bare}?dsn={quote(f'postgresql://?{database.parameters}', safe='')}"


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
            "AUTH_MANAGER": auth_manager(settings),
        },
        "DATABASE": {
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
    own = tls.folder(settings)
    secured = {
        "SSL_CERT": own / tls.CERTIFICATE,
        "SSL_KEY": own / tls.KEY,
        "SSL_CA_FILE": settings.airflow.root_certificate,  # by it tasks check the server
    }
    return {
        "API": {
            **(secured if settings.speaks_tls("airflow") else {}),
            "HOST": settings.bind_host,
            "PORT": settings.port("airflow"),
            "BASE_URL": settings.airflow.url,
            "WORKERS": 1,
            # Its scripts would come from another site into pages where people are logged in.
            "ENABLE_SWAGGER_UI": False,
        },
        "API_AUTH": {
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
