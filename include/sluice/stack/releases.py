"""Which release an instance is of: an older one is kept off its data, and two never run as one.

Releases after 0.1.0 compare the schema's revision before they bring an instance up
(`storage.postgres.check_revision`). 0.1.0 does not: it would start all daemons and jobs of its own, and these
would write into tables and files of which they know half. Before it does anything, 0.1.0 reads the variables
that somebody gave it from `secrets/given.json`, which this release does not read (`runtime.given_secrets`).
So that file has an address for it that is none, and every command of 0.1.0 ends with what stands there.
"""

from __future__ import annotations

from sluice.runtime import given_secrets
from sluice.runtime.files import write_whole
from sluice.runtime.installed import own_version
from sluice.runtime.settings import Settings
from sluice.storage import migrations

#: 0.1.0 shows this, and goes on: "is no address that jobs on other hosts could be told".
READ_BY_0_1_0 = "secrets/given.json"
TO_0_1_0 = (
    "Instance {name} was upgraded, and this release does not know its data. Nothing was changed. Check the "
    "newer release out again (git checkout, make setup, sluice up), or go back as its docs/runbook.md says "
    "under Upgrade"
)
#: With which release the daemons that run were started. FIRST leaves no such file.
STARTED_WITH = "conf/release"
FIRST = "0.1.0 (schema 0025)"


class OtherReleaseRuns(RuntimeError):
    """The instance's daemons and jobs run with the code of another release."""

    def __init__(self, settings: Settings, other: str) -> None:
        name = settings.instance
        super().__init__(
            f"instance {name!r} runs with release {other}, and this one is {own_release()}: its jobs would "
            f"meet a database that they do not know. Stop it first: `sluice --instance {name} down`. Nothing "
            "was changed"
        )


def own_release() -> str:
    """This release's version, and the schema of the database that it knows."""
    return f"{own_version()} (schema {migrations.newest()})"


def keep_older_out(settings: Settings) -> None:
    """Have 0.1.0 refuse the instance. Call it before its data becomes this release's."""
    said = {"SLUICE_HADOOP_HOST": TO_0_1_0.format(name=settings.instance)}
    given_secrets.write(settings.home / READ_BY_0_1_0, said)


def note_start(settings: Settings) -> None:
    """Note that the instance's daemons are started with this release."""
    write_whole(settings.home / STARTED_WITH, own_release())


def require_own(settings: Settings) -> None:
    """Raise OtherReleaseRuns if the daemons that run were started with another release."""
    note = settings.home / STARTED_WITH
    started = note.read_text() if note.exists() else FIRST
    if started != own_release():
        raise OtherReleaseRuns(settings, started)
