"""The certificate of PostgreSQL: shown at its door where that speaks TLS, and to jobs on other hosts always.

The instance's authority signs it, also where the other doors show a certificate of the user's own: jobs on
other hosts know that authority alone, and PostgreSQL has one certificate for everybody. Only programs look at
it, so it is valid as long as the hosts' certificates, and needs no renewal while PostgreSQL runs.
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


def prepare_database_tls(settings: Settings) -> tls.Files | None:
    """What PostgreSQL is to show, written into the folder of `stack.tls` unless it is there.

    None if the server is not the instance's own, or nobody speaks TLS to it.
    """
    hosts = listener.read(settings.home)
    if "postgres" in settings.external or not (hosts or settings.speaks_tls("postgres")):
        return None
    own = tls.folder(settings)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {settings.postgres.host, *([hosts.address] if hosts else []), *tls.names_of_machine(settings)}
    paths = [own / name for name in (CERTIFICATE, KEY, AUTHORITY)]
    with FileLock(own / ".lock", mode=0o600):
        before = tls.there(*paths)
        wanted = tls.issued(settings, before, names, authority.DECADE)
        if wanted != before:
            for path, data in zip(paths, wanted, strict=True):
                write_bytes(path, data, 0o600)
    return wanted
