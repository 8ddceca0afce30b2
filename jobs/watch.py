"""Watch an instance until its supervisor ends: supervisord runs this beside the daemons.

    python jobs/watch.py [--tables]

It restarts sick daemons (`stack.watch`), shows what operators read (`monitoring.observer`) and keeps the SQL
tables to the tasks (`sql.keeper`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from sluice.monitoring.observer import Observer
from sluice.runtime import garbage
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import Settings
from sluice.sql.keeper import Keeper
from sluice.stack import watch
from sluice.stack.log import Log


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", action="store_true", help="only keep the SQL tables, once")
    settings, say = Settings(), Log("watch")
    keeper = Keeper(settings, say)
    if parser.parse_args().tables:
        keeper.look({})
        return
    end_with_parent()
    observer = Observer(settings, say)
    garbage.loaded()

    def looked(problems: Mapping[str, str]) -> None:
        observer(problems)
        keeper(problems)

    watch.run(settings, say, looked)


if __name__ == "__main__":
    main()
