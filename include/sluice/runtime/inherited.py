"""Which environment variables a process of an instance gets from the one that starts it: those on a list.

Nothing else passes, because whoever gives the platform a hole could print it: a password in the shell that
typed `sluice up` is none of the SQL endpoint's business. Secrets that are settings pass in files
(`runtime.given_secrets`). The setting `inherit` names further variables.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from sluice.runtime import given_secrets
from sluice.runtime.settings import Settings, get_settings

_USER = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS")
_PROGRAMS = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "MALLOC_ARENA_MAX", "MIMALLOC_PURGE_DELAY")
_PROXIES = tuple(f"{scheme}_proxy" for scheme in ("http", "https", "no", "all"))
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_JAVA = ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "HADOOP_CONF_DIR", "HADOOP_USER_NAME")
_PYTHON = ("PATH", "DONTWRITEBYTECODE", "PYCACHEPREFIX", "UNBUFFERED", "FAULTHANDLER", "HASHSEED")
_CACHES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "NUMBA_CACHE_DIR")
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_CACHE_LOCATOR_CLASSES")
_SPARK = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS")
_PYSPARK = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS", "GX_ANALYTICS_ENABLED")
#: Of Sluice's own, those that are no settings; the first two say where it is.
_OWN = ("ROOT", "LIB", "DEBUG", "DAEMON", "INSIDE", "FAULT", "FAULTS", "SUCCESSOR")
NAMES = frozenset(
    [
        *(*_USER, *_PROGRAMS, *_PROXIES, *map(str.upper, _PROXIES), *_CERTIFICATES, *_JAVA),
        *(*_CACHES, *_THREADS, *_SPARK, *_PYSPARK, given_secrets.NAMED),
        *(*(f"PYTHON{name}" for name in _PYTHON), *(f"SLUICE_{name}" for name in _OWN)),
    ]
)
PREFIXES = ("LC_",)
_PREFIX, _DELIMITER = "SLUICE_", "__"


def variables() -> dict[str, str]:
    """The variables that a process gets from this one."""
    more = frozenset(get_settings().inherit)
    return {name: value for name, value in os.environ.items() if passes(name) or name in more}


def secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that give secret settings."""
    return {
        name: value
        for name, value in environ.items()
        if (field := _field(name)) is not None and _secret(*field)
    }


def passes(name: str) -> bool:
    """Whether every process may have the variable."""
    field = _field(name)
    return name in NAMES or name.startswith(PREFIXES) or (field is not None and not _secret(*field))


def separated(more: Mapping[str, str], path: Path) -> dict[str, str]:
    """The variables for one process, these ones among them; its secrets are in the file at `path` instead."""
    apart = secrets({**os.environ, **more})
    given_secrets.write(path, {**given_secrets.named(), **apart} if apart else {})
    kept = {**variables(), **{name: value for name, value in more.items() if name not in apart}}
    return {**kept, given_secrets.NAMED: str(path)} if apart else kept


@contextlib.contextmanager
def alone(environ: Mapping[str, str]) -> Iterator[None]:
    """Leave this process only these variables meanwhile, for a library that passes on its environment."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _field(name: str) -> tuple[object, bool] | None:
    """The setting that the variable gives, and whether it is marked as a secret; None: it gives none."""
    if not name.startswith(_PREFIX) or not name.isupper():
        return None
    kind: object = Settings
    hidden = False
    for part in name.removeprefix(_PREFIX).lower().split(_DELIMITER):
        model = _model(kind)
        if model is None:  # a key of a table, such as port_offsets
            return kind, hidden
        if part not in model.model_fields:
            return None
        field = model.model_fields[part]
        kind, hidden = field.annotation, hidden or not field.repr
    return kind, hidden


def _secret(kind: object, hidden: bool) -> bool:
    """Whether it is a secret, or a section that has one."""
    model = _model(kind)
    if hidden or model is None:
        return hidden
    return any(_secret(field.annotation, not field.repr) for field in model.model_fields.values())


def _model(kind: object) -> type[BaseModel] | None:
    """The model that a setting's type is, or may be."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None
