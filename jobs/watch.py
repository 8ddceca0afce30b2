"""Watch an instance until its supervisor ends: supervisord runs this beside the daemons.

    python jobs/watch.py

It restarts sick daemons (`stack.watch`), shows what operators read (`monitoring.observer`) and keeps the SQL
tables to the tasks (`sql.keeper`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sluice.monitoring.observer import Observer
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import Settings
from sluice.sql.keeper import Keeper
from sluice.stack import watch
from sluice.stack.log import Log


def main() -> None:
    end_with_parent()
    settings, say = Settings(), Log("watch")
    each_look = Observer(settings, say), Keeper(settings, say)

    def looked(problems: Mapping[str, str]) -> None:
        for look in each_look:
            look(problems)

    watch.run(settings, say, looked)


if __name__ == "__main__":
    main()
