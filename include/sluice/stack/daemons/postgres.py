"""PostgreSQL, with its binaries from a jar.

It refuses to run as root, so a root process runs it as an unprivileged user. Nobody can log in as its
superuser, who gives orders before the server starts: in single-user mode, which only the owner of the data
can use.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import psutil

from sluice.runtime.files import write_bytes, write_whole
from sluice.runtime.settings import Settings
from sluice.stack import database_roles, health, settings_book, templating
from sluice.stack.daemon import Command, Daemon
from sluice.stack.database_tls import prepare_database_tls
from sluice.stack.jars import require
from sluice.stack.networking import doors, private
from sluice.stack.tls import Files
from sluice.storage import listener

_BEGAN_WITH = "began_with"  # where it listens for hosts, and what it shows, as it was configured
_GRANTED = "sluice_granted"  # in its data: the hash of the orders that were given last
_FOUND = re.compile(r'datname = "([^"]*)"')


#: Files in the instance's directory while a restore or a recovery makes the database again.
MADE_AGAIN = ("restoring", "recovering")


class PostgresFailed(RuntimeError):
    """PostgreSQL refused an order in single-user mode."""


class DatabaseLost(RuntimeError):
    """An instance that was up before has no PostgreSQL any more."""

    def __init__(self, settings: Settings) -> None:
        name = settings.instance
        super().__init__(
            f"{_data(settings)} is gone, with all that PostgreSQL had of instance {name!r}; with an empty "
            f"one the layers would count from the beginning. Call `sluice --instance {name} down`, then "
            f"`sluice --instance {name} recover`, which makes it again from HDFS; or put a backup back, if "
            "there is one (`sluice restore`)"
        )


def initialise(settings: Settings) -> None:
    """Create the cluster, unless it exists. Raises DatabaseLost."""
    data = _data(settings)
    require_data(settings)
    if initialised(settings).exists():
        return
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    if os.geteuid() == 0:
        user = private.account(settings)
        os.chown(data, user.pw_uid, user.pw_gid)
    options = ["--encoding=UTF8", "--locale=C", "--auth=reject", f"--username={database_roles.SUPERUSER}"]
    subprocess.run(_unprivileged(settings, [_binary("initdb"), "-D", str(data), *options]), check=True)


def initialised(settings: Settings) -> Path:
    """The file that is there once the cluster was created."""
    return _data(settings) / "PG_VERSION"


def require_data(settings: Settings) -> None:
    """Raise DatabaseLost if the instance was up before and has no cluster any more."""
    made_again = any((settings.home / name).exists() for name in MADE_AGAIN)
    was_up = (settings.home / "secrets" / settings_book.FILE).exists()
    if was_up and not made_again and not initialised(settings).exists():
        raise DatabaseLost(settings)


def grant(settings: Settings) -> None:
    """Give each role its database and its password, unless that was done. Raises PostgresFailed."""
    postgres, marker = settings.postgres, _data(settings) / _GRANTED
    database_roles.check(postgres)
    server, within = database_roles.server(postgres), list(map(database_roles.within, postgres.roles))
    orders = "".join([server, database_roles.databases(postgres, ()), *within])
    digest = hashlib.sha256(orders.encode()).hexdigest()
    if marker.exists() and marker.read_text() == digest:
        return
    there = _FOUND.findall(single(settings, "SELECT datname FROM pg_database", database_roles.SYSTEM[0]))
    single(settings, server, database_roles.SYSTEM[0])
    single(settings, database_roles.databases(postgres, there), database_roles.SYSTEM[0])
    for role, text in zip(postgres.roles, within, strict=True):
        single(settings, text, role.database)
    write_whole(marker, digest, 0o600)
    _give(settings, marker)


def single(settings: Settings, orders: str, database: str) -> str:
    """What the server says to these orders in single-user mode. It must not run. Raises PostgresFailed."""
    options = ("exit_on_error=true", "search_path=pg_catalog", "log_min_error_statement=panic")
    argv = [_binary("postgres"), "--single", "-j", *(word for each in options for word in ("-c", each))]
    argv += ["-D", str(_data(settings)), database]
    done = subprocess.run(
        _unprivileged(settings, argv), input=orders, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).splitlines()[-10:])
        raise PostgresFailed(f"PostgreSQL refused to prepare the database {database!r}:\n{said}")
    return done.stdout


def configure(settings: Settings) -> None:
    data, hosts, shown = _data(settings), listener.read(settings.home), prepare_database_tls(settings)
    local = "127.0.0.0/8" if settings.private else "127.0.0.1/32"
    filled = {"door_connections": doors.MOST, "hosts": hosts, "local": local, "secured": shown is not None}
    for name in ("postgresql.conf", "pg_hba.conf"):
        templating.write(settings, name, data / name, **filled)
        _give(settings, data / name)
    if shown is not None:  # the key must be its own
        for name, content in zip(("server.crt", "server.key"), shown[:2], strict=True):
            write_bytes(data / name, content, 0o600)
            _give(settings, data / name)
    conf = _conf(settings)
    conf.mkdir(parents=True, exist_ok=True)
    write_whole(conf / _BEGAN_WITH, _begins_with(hosts, shown))


def outdated(settings: Settings) -> bool:
    """Whether it began with another listener for hosts, or certificate, than it would begin with now."""
    path = _conf(settings) / _BEGAN_WITH
    if not path.exists():
        return False
    return path.read_text() != _begins_with(listener.read(settings.home), prepare_database_tls(settings))


def _begins_with(hosts: listener.DatabaseListener | None, shown: Files | None) -> str:
    return repr((hosts, shown and hashlib.sha256(shown[0]).hexdigest()))


def _give(settings: Settings, path: Path) -> None:
    """Make a file PostgreSQL's own. Never through a link: the directory's owner could have put one here."""
    if os.geteuid() == 0:
        user = private.account(settings)
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def forget_dead(settings: Settings) -> None:
    """Delete the lock file if its pid is not a PostgreSQL's.

    After a reboot that pid may belong to another process, and PostgreSQL would not start.
    """
    lock = _data(settings) / "postmaster.pid"
    if not lock.exists():
        return
    try:
        running = psutil.Process(int(lock.read_text().split("\n", 1)[0])).name()
    except (psutil.Error, ValueError):
        running = ""
    if running != "postgres":
        lock.unlink()


def command(settings: Settings) -> Command:
    return Command(_unprivileged(settings, [_binary("postgres"), "-D", str(_data(settings))]))


def _conf(settings: Settings) -> Path:
    return settings.home / "conf" / "postgres"


def _data(settings: Settings) -> Path:
    return settings.home / "data" / "postgres"


def _binary(name: str) -> str:
    return str(require("postgres") / "server" / "bin" / name)


def _unprivileged(settings: Settings, argv: list[str]) -> list[str]:
    """The command, wrapped so that it drops root if this process is root.

    The checkout may lie below a directory that only root may enter (``mktemp -d``). Then the process keeps
    one capability in its ambient set, to enter and read directories, and still owns nothing but its data.
    """
    if os.geteuid() != 0:
        return argv
    user = private.account(settings)
    drop = [
        "setpriv",
        "--pdeathsig=INT",
        f"--reuid={user.pw_uid}",
        f"--regid={user.pw_gid}",
        "--clear-groups",
    ]
    if not all(private.may_enter(user, path) for path in (_data(settings), Path(argv[0]))):
        drop += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        # initdb looks for postgres with access(), which ignores capabilities without this securebit.
        drop += ["--securebits=+no_setuid_fixup"]
    return [*drop, "--", *argv]


POSTGRES = Daemon(
    name="postgres",
    service="postgres",
    ports=("postgres",),
    prepare=(initialise, configure, forget_dead, grant),
    command=command,
    health=health.postgres,
    data=("data/postgres",),
    stop_signal="INT",  # a "fast" shutdown rolls back and stops; TERM would wait for every client to leave
)
