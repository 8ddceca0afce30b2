"""The running stack for benches that need it: an instance that runs, or `trial`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.cli import instance
from sluice.runtime.settings import Settings, current_instance, get_settings
from sluice.stack import entry, shutdown, supervisord
from sluice.stack.catalogue import DAEMONS
from sluice.stack.environment import environment

#: Not `bench`, because var/bench has the measurements and an instance may be deleted as a whole.
INSTANCE = "trial"


@contextmanager
def running() -> Iterator[Settings]:
    """Settings of a running instance.

    It is the one that SLUICE_INSTANCE names, else the current one if it runs, else `trial`. An instance that
    does not run is brought up, and stopped at the end; its data stays. But `trial` begins anew, because what
    it has of former benches would be computed and published beside the next one.
    """
    before = dict(os.environ)
    named = os.environ.get("SLUICE_INSTANCE")
    name = named or current_instance()
    if not named and not supervisord.running(Settings(instance=name)):
        name = INSTANCE
    os.environ["SLUICE_INSTANCE"] = name
    settings = Settings()
    ours = not supervisord.running(settings)
    say(f"instance {name}" + (", brought up for this" if ours else ", which runs"))
    if ours and name == INSTANCE and settings.home.exists():
        shutdown.abandon(settings)
        shutil.rmtree(settings.home)
    if ours or any(entry.check(settings, daemon) for daemon in DAEMONS):
        instance.up(settings, say)
    get_settings.cache_clear()
    os.environ.update(environment(get_settings()))
    try:
        yield get_settings()
    finally:
        if ours:
            instance.down(settings, say)
        os.environ.clear()
        os.environ.update(before)
        get_settings.cache_clear()


def say(text: str) -> None:
    sys.stderr.write(f"  {text}\n")
