"""Brings an instance up: starts its daemons, waits until they are healthy, and fills them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from filelock import FileLock

from sluice.runtime.settings import Settings
from sluice.stack import catalogue, process_groups, secrets, supervisord, tls
from sluice.stack.daemon import Daemon
from sluice.stack.entry import check
from sluice.stack.initialise import Step
from sluice.stack.log import log_file, log_tail
from sluice.stack.networking import network, ports

Say = Callable[[str], None]

POLL_SECONDS = 0.5
STILL_SECONDS = 15.0
# Give up when no further daemon becomes healthy for this long. A whole bring-up takes 60-100 s on 2 cores,
# and its slowest daemon 30 s; a machine that others also use may need five times that.
LIMIT_SECONDS = 240.0
# A daemon's first exits may have another cause (such as a port that is just being released); the third is
# its own fault.
DEATHS = 3


class BringUpFailed(RuntimeError):
    """A daemon does not become healthy; the message ends with the last lines of its log."""


def up(settings: Settings, say: Say, steps: Sequence[Step], only: Collection[str] = ()) -> None:
    """Start what does not run and wait until all of it is healthy and filled.

    ``say`` gets a line for each step. only: the daemons' names, if not all are wanted; none may depend on
    another one.
    """
    network.open_and_enter(settings, say)
    if not supervisord.running(settings):
        secrets.keep_given(settings)
    secrets.make(settings)
    settings = reread(settings)
    tls.prepare_tls(settings)
    daemons = [daemon for daemon in catalogue.own(settings) if not only or daemon.name in only]
    with _alone(settings):
        clear_way(settings, daemons)
        supervisord.start(settings, daemons)
    outside = [daemon for daemon in _outside(settings) if not only or daemon.name in only]
    _BringUp(settings, [*daemons, *outside], steps, say).run()


@contextlib.contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Let one process at a time bring it up; the second one finds the first one's supervisor."""
    settings.home.parent.mkdir(parents=True, exist_ok=True)
    # Nobody else may open the file, because whoever can may hold the lock.
    with FileLock(settings.home.with_name(f".{settings.home.name}.lock"), mode=0o600):
        yield


def clear_way(settings: Settings, daemons: Sequence[Daemon]) -> None:
    """Stop what a killed supervisor left behind, and raise ports.PortInUse if a port is taken."""
    known: dict[str, supervisord.Program] = {}
    if supervisord.running(settings):
        known = supervisord.programs(settings)
    else:
        process_groups.stop(process_groups.of_daemon(settings))
    for daemon in daemons:
        if daemon.name in known and known[daemon.name].state in supervisord.LIVING:
            continue
        for port in daemon.ports:
            ports.require_free(settings, port, daemon.name)


class _BringUp:
    """One bring-up: which daemons are healthy, which were asked, and what the others lack."""

    def __init__(
        self, settings: Settings, daemons: Sequence[Daemon], steps: Sequence[Step], say: Say
    ) -> None:
        self.settings, self.steps, self.say = settings, steps, say
        self.waited = daemons
        self.healthy: set[str] = set()
        self.asked: dict[str, Future[str | None]] = {}
        self.problems: dict[str, str] = {}
        self.deaths = _Deaths(settings)
        self.given_up = threading.Event()
        self.begin = self.told = self.advanced = time.monotonic()

    def run(self) -> None:
        """Wait until all is healthy and filled. Raises BringUpFailed, or what a step raised."""
        with ThreadPoolExecutor(len(self.waited) + 1) as pool:
            filling = pool.submit(self.fill)
            try:
                while self.missing() or not filling.done():
                    self.ask(pool)
                    if filling.done():
                        filling.result()
                    self.complain()
                    time.sleep(POLL_SECONDS)
            finally:
                self.given_up.set()

    def missing(self) -> list[str]:
        return [daemon.name for daemon in self.waited if daemon.name not in self.healthy]

    def ask(self, pool: ThreadPoolExecutor) -> None:
        """Take the answers that have come, and ask each daemon whose dependencies are healthy."""
        for daemon in self.waited:
            needs = catalogue.dependencies(self.settings, daemon)
            if daemon.name in self.healthy or not self.healthy.issuperset(needs):
                continue
            answer = self.asked.get(daemon.name)
            if answer is None:
                self.asked[daemon.name] = pool.submit(check, self.settings, daemon.name)
            elif answer.done():
                del self.asked[daemon.name]
                if problem := answer.result():
                    self.problems[daemon.name] = problem
                else:
                    self.healthy.add(daemon.name)
                    self.advanced = time.monotonic()
                    self.tell(self.announcement(daemon))

    def announcement(self, daemon: Daemon) -> str:
        if daemon.service in self.settings.external:
            return f"{daemon.name:<22} reached (external)"
        return f"{daemon.name:<22} healthy" + (
            f"  port {self.settings.port(daemon.ports[0])}" if daemon.ports else ""
        )

    def complain(self) -> None:
        """Raise BringUpFailed if a daemon cannot become healthy, else report now and then."""
        missing = self.missing()
        for name in self.deaths.hopeless():
            raise BringUpFailed(_explain(self.settings, name, f"{name} keeps dying"))
        if missing and time.monotonic() - self.advanced > LIMIT_SECONDS:
            name = missing[0]
            why = self.problems.get(name, "it still prepares")
            what = f"{name} is not healthy {LIMIT_SECONDS:.0f} s after the last one became so: {why}"
            raise BringUpFailed(_explain(self.settings, name, what))
        if missing and time.monotonic() - self.told > STILL_SECONDS:
            self.tell(f"waiting for {', '.join(missing)}")

    def fill(self) -> None:
        """Run each step as soon as the daemons that it talks to are healthy."""
        for step, needs in self.steps:
            while not self.healthy.issuperset(needs):
                if self.given_up.wait(POLL_SECONDS):
                    return
            started = time.monotonic()
            try:
                step(self.settings)
            except Exception as error:
                for name in needs:
                    error.add_note(_tail(self.settings, name))
                raise
            self.tell(f"{step.__name__:<22} ready    ({time.monotonic() - started:.1f} s)")

    def tell(self, text: str) -> None:
        self.told = time.monotonic()
        self.say(f"{self.told - self.begin:6.1f} s  {text}")


def reread(settings: Settings) -> Settings:
    """The same settings with the secrets now on disk, since they may just have been made."""
    return Settings(
        instance=settings.instance,
        home=settings.home,
        external=settings.external,
        port_base=settings.port_base,
    )


def _outside(settings: Settings) -> Iterator[Daemon]:
    """The daemons of external services that clients talk to, since these must answer as well."""
    own = {daemon.name for daemon in catalogue.own(settings)}
    return (daemon for daemon in catalogue.in_order() if daemon.name not in own and daemon.for_clients)


def _explain(settings: Settings, name: str, what: str) -> str:
    return f"{what}. {_tail(settings, name)}\nSee all of it with `sluice logs {name}`."


def _tail(settings: Settings, name: str) -> str:
    tail = "\n".join(f"    {line}" for line in log_tail(settings, name))
    return f"The end of {log_file(settings, name)}:\n{tail}"


class _Deaths:
    """How often each daemon died since this was made."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ended = {name: program.ended for name, program in supervisord.programs(settings).items()}
        self.count = dict.fromkeys(self.ended, 0)

    def hopeless(self) -> Iterator[str]:
        for name, program in supervisord.programs(self.settings).items():
            if program.ended != self.ended.get(name, 0):
                self.ended[name] = program.ended
                self.count[name] = self.count.get(name, 0) + 1
            if self.count.get(name, 0) >= DEATHS or program.state == "FATAL":
                yield name
