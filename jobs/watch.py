"""Watch an instance: supervisord runs this beside the daemons, and ends it; containers have a service for it.

    python jobs/watch.py [--only-look]

It restarts sick daemons (`stack.watch`), shows what operators read (`monitoring.observer`), keeps the SQL
tables to the tasks (`sql.keeper`), deletes from Kafka what is archived (`archive.trimming`), keeps what only
PostgreSQL knows in HDFS, too (`backup.definition_files`), holds intake while a disk is nearly full
(`stack.disk_guard`), and ends a safe mode of HDFS that would last for ever (`stack.safe_mode`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from sluice.archive.trimming import KafkaTrimmer
from sluice.backup.definition_files import DefinitionKeeper
from sluice.monitoring.damaged_files import tell_forgotten
from sluice.monitoring.observer import Observer
from sluice.runtime import garbage
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import Settings
from sluice.sql.keeper import TableKeeper
from sluice.stack import watch
from sluice.stack.disk_guard import DiskGuard
from sluice.stack.log import DaemonLog
from sluice.stack.safe_mode import SafeModeExit
from sluice.storage.postgres import engine


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only-look", action="store_true", help="restart no daemon: without supervisord, as in containers"
    )
    return parser


def main() -> None:
    only_look = arguments().parse_args().only_look
    settings, say = Settings(), DaemonLog("watch")
    end_with_parent()
    keeper, observer = TableKeeper(settings, say), Observer(settings, say)
    trimmer, definitions = KafkaTrimmer(settings, say), DefinitionKeeper(settings, say)
    safe_mode = SafeModeExit(settings, say, partial(tell_forgotten, engine(settings)))
    garbage.loaded()
    guard = DiskGuard(settings, say)
    guard.start()

    def looked(problems: Mapping[str, str]) -> None:
        observer(problems)
        keeper(problems)
        trimmer(problems)
        definitions(problems)
        safe_mode(problems)

    watch.run(settings, say, looked, emptied=guard.emptied, restarts=not only_look)


if __name__ == "__main__":
    main()
