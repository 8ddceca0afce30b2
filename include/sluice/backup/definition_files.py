"""The definitions in HDFS, beside the archive: a file for each change, and the watch that writes it."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from sluice.backup import definitions
from sluice.backup.definitions import Definitions, UnreadableDefinitions
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError, HdfsFile, HdfsStore, HdfsUnavailable
from sluice.storage.postgres import engine
from sluice.storage.stores import Store
from sluice.storage.tables import alerts

FOLDER = "definitions"
NAME = re.compile(r"(\d{20})\.json")
#: The newest versions, which stay.
KEPT = 10
#: The daemons that the watch needs for it.
DAEMONS = ("postgres", "namenode", "datanode")
#: The source of the alert about a database that knows less than the files.
ALERTS = "definitions"
BEHIND = (
    "PostgreSQL knows of {now} changes of tasks, and the definitions in HDFS of {kept}: it is another "
    "database than the one that they are of, or an older state of it. They are left as they are. If "
    "PostgreSQL's data was lost, see docs/runbook.md, PostgreSQL is lost; if it was put back on purpose, "
    "move {folder} away"
)


class NoDefinitions(LookupError):
    """HDFS has no definitions that can be read."""

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(
            f"{folder} in HDFS has no definitions that can be read ({why}), so nobody knows what was "
            "counted. The watch writes them while the platform runs: restore a backup instead (`sluice "
            "restore`)"
        )


@dataclass(frozen=True)
class KeptDefinitions:
    """Definitions, and the file that has them."""

    definitions: Definitions
    file: HdfsFile


class DefinitionFiles:
    """The files, each under its number; one that is there is never changed."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self.folder = store, folder

    @classmethod
    def of(cls, settings: Settings, patience: float = 20.0) -> DefinitionFiles:
        above = settings.hdfs.raw.rstrip("/").rpartition("/")[0]
        return cls(HdfsStore.of(settings, patience=patience), f"{above}/{FOLDER}")

    def newest(self) -> KeptDefinitions:
        """The newest that can be read. Raises NoDefinitions, HdfsUnavailable."""
        why = "there is no file"
        for file in reversed(self._files()):
            try:
                data = self._store.read(f"{self.folder}/{file.name}", 0, file.length)
                return KeptDefinitions(Definitions.from_json(data), file)
            except (UnreadableDefinitions, HdfsError) as error:
                why = f"{file.name}: {error}"
        raise NoDefinitions(self.folder, why)

    def write(self, kept: Definitions) -> str:
        """Write the next file whole, delete those that are too many; returns its name."""
        files = self._files()
        number = 1 + max((int(file.name.partition(".")[0]) for file in files), default=0)
        name, temporary = f"{number:020d}.json", f"{self.folder}/.tmp-{secrets.token_hex(6)}"
        self._store.write(temporary, kept.to_json().encode())
        # Of two that write the same number one renames; the other looks again with its next round.
        if not self._store.rename(temporary, f"{self.folder}/{name}"):
            self._store.delete(temporary)
        for each in self._store.list(self.folder):
            old = NAME.fullmatch(each.name) and int(each.name.partition(".")[0]) <= number - KEPT
            if old or (each.name.startswith(".tmp-") and files and each.modified < files[-1].modified):
                self._store.delete(f"{self.folder}/{each.name}")
        return name

    def _files(self) -> list[HdfsFile]:
        return [file for file in self._store.list(self.folder) if NAME.fullmatch(file.name)]


class DefinitionKeeper:
    """Called with the daemons' problems after each round of the watch; returns at once.

    It compares the definitions with those that it wrote last, in a thread of its own, and writes them if they
    changed.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        self._thread: threading.Thread | None = None
        self._written, self._fault = "", ""

    def __call__(self, problems: Mapping[str, str]) -> None:
        busy = self._thread is not None and self._thread.is_alive()
        if busy or any(problems.get(name) for name in DAEMONS):
            return
        self._thread = threading.Thread(target=self.look, daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Keep the definitions once; a fault is said once, until it is over."""
        fault = ""
        try:
            self._keep()
        except (SQLAlchemyError, HdfsError, HdfsUnavailable) as error:
            fault = f"definitions are not kept in HDFS: {str(error).splitlines()[0]}"
        if fault and fault != self._fault:
            self._say(fault)
        self._fault = fault

    def _keep(self) -> None:
        database = engine(self._settings)
        now = definitions.read(database)
        if now.to_json() == self._written:
            return
        files = DefinitionFiles.of(self._settings)
        try:
            kept = files.newest().definitions
        except NoDefinitions:
            kept = Definitions(now.revision, {})
        behind = {}
        if kept.changes > now.changes:
            behind["behind"] = BEHIND.format(now=now.changes, kept=kept.changes, folder=files.folder)
        elif kept != now:
            self._say(f"definitions changed: {files.folder}/{files.write(now)}")
        alerts.sync(database, ALERTS, behind)
        self._written = now.to_json() if not behind else ""
