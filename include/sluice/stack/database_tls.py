"""The certificate of PostgreSQL: shown at its door where that speaks TLS, and to jobs on other hosts always.

The instance's authority signs it, also where the other doors show a certificate of the user's own: jobs on
other hosts know that authority alone, and PostgreSQL has one certificate for everybody. Only programs look at
it, so it is valid for as long as those of hosts, and needs no renewal while PostgreSQL runs.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from sluice.runtime import authority
from sluice.runtime.files import write_bytes
from sluice.runtime.settings import DATABASE_TRUSTED, Settings
from sluice.stack import tls
from sluice.storage import listener

CERTIFICATE, KEY, AUTHORITY = "postgres.crt", "postgres.key", Path(DATABASE_TRUSTED).name


def is_needed(settings: Settings) -> bool:
    """Whether PostgreSQL is the instance's own, and somebody speaks TLS to it."""
    return settings.speaks_tls("postgres") or (
        "postgres" not in settings.external and listener.read(settings.home) is not None
    )


def prepare_database_tls(settings: Settings) -> None:
    """Write `CERTIFICATE`, `KEY` and `AUTHORITY` into the folder of `stack.tls`, unless they will do."""
    if not is_needed(settings):
        return
    own, hosts = tls.folder(settings), listener.read(settings.home)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {settings.postgres.host, *([hosts.address] if hosts else []), *tls.names_of_machine(settings)}
    paths = [own / name for name in (CERTIFICATE, KEY, AUTHORITY)]
    with FileLock(own / ".lock", mode=0o600):
        before = tls.there(*paths)
        wanted = tls.issued(settings, before, names, authority.DECADE)
        if wanted != before:
            for path, data in zip(paths, wanted, strict=True):
                write_bytes(path, data, 0o600)
