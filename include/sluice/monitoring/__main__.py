"""The watch of an instance: ``python -m sluice.monitoring``; supervisord runs it.

It restarts sick daemons (`stack.watch`), and shows what operators read (`observer`).
"""

from __future__ import annotations

from sluice.monitoring.observer import Observer
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import Settings
from sluice.stack import watch
from sluice.stack.log import Log

if __name__ == "__main__":
    end_with_parent()
    say = Log("watch")
    watch.run(Settings(), say, Observer(Settings(), say))
