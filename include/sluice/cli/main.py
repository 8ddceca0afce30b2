"""The `sluice` command: everything a person does without Airflow's pages.

Sub-commands are imported when they are called, because some of them import Spark's, Kafka's and PostgreSQL's
clients: `sluice --help` must answer in well under a second.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from sluice.cli.asked_by import say_where
from sluice.cli.errors import explain, remedied
from sluice.cli.output import terminal

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings

#: The instance whose daemons this command asks, if it asks any.
_entered: list[Settings] = []


@dataclass(frozen=True)
class Lazy:
    """Where a sub-command lives, and the line that `sluice --help` shows for it."""

    module: str
    attribute: str  # a function, or a typer.Typer with sub-commands of its own
    help: str
    metrics: bool = True  # whether it may use metrics: the team's are loaded first then
    inside: bool = True  # whether it talks to the daemons: it enters the instance's network first then


COMMANDS = {
    "up": Lazy(
        "sluice.cli.stack",
        "up",
        "Start the platform's daemons and wait until they are healthy.",
        metrics=False,
        inside=False,
    ),
    "down": Lazy("sluice.cli.stack", "down", "Stop the platform's daemons; their data stays.", metrics=False),
    "status": Lazy(
        "sluice.cli.stack", "status", "Show each daemon: state, port, memory, health.", metrics=False
    ),
    "logs": Lazy("sluice.cli.stack", "logs", "Show the end of a daemon's log.", metrics=False, inside=False),
    "exec": Lazy(
        "sluice.cli.stack",
        "execute",
        "Run any command inside the instance's private network.",
        metrics=False,
    ),
    "reset": Lazy(
        "sluice.cli.stack",
        "reset",
        "Delete the instance and all its data; asks first.",
        metrics=False,
        inside=False,
    ),
    "backup": Lazy(
        "sluice.cli.backup",
        "backup",
        "Back the running instance up into a directory; only what is new is copied.",
        metrics=False,
    ),
    "restore": Lazy(
        "sluice.cli.backup",
        "restore",
        "Restore a backup into an instance that has no data.",
        metrics=False,
        inside=False,
    ),
    "recover": Lazy(
        "sluice.cli.recover",
        "recover",
        "Make a lost PostgreSQL again from HDFS, without a backup.",
        metrics=False,  # once it has entered the network, because they start threads
        inside=False,
    ),
    "generate": Lazy(
        "sluice.cli.replay",
        "generate",
        "Write a made-up access log, the same for the same seed.",
        metrics=False,
        inside=False,
    ),
    "replay": Lazy(
        "sluice.cli.replay",
        "replay",
        "Write a log into a front-end's directory as a web server would.",
        metrics=False,
        inside=False,
    ),
    "tasks": Lazy(
        "sluice.cli.tasks", "app", "What is counted: apply, list, show, try out, pause and delete tasks."
    ),
    "jobs": Lazy(
        "sluice_hosts.commands.jobs",
        "app",
        "Jobs that run for ever, and their hosts: list, move.",
        metrics=False,
    ),
    "lists": Lazy("sluice.cli.lists", "app", "Named lists of values, for the filters of tasks."),
    "metrics": Lazy("sluice.cli.metrics", "metrics", "What can be computed from lines, a team's own too."),
    "topics": Lazy("sluice.cli.topics", "app", "What the lines of a topic look like: their format and time."),
    "grouping": Lazy(
        "sluice.cli.grouping",
        "app",
        "How tasks' lines are distributed to workers, and why: explain, strategies.",
    ),
    "hotkeys": Lazy("sluice.cli.grouping", "hotkeys", "Which keys are hot: shares, errors, workers, loads."),
    "hosts": Lazy(
        "sluice_hosts.commands.hosts",
        "app",
        "Other machines with agents: enrol, list, check, forget.",
        metrics=False,
    ),
    "placement": Lazy(
        "sluice_hosts.commands.placement",
        "app",
        "Units on hosts: plan what moves, move it, explain why a unit is where it is.",
        metrics=False,
    ),
    "users": Lazy(
        "sluice.cli.users",
        "app",
        "Who may log in: add, list, change and remove the instance's users.",
        metrics=False,
    ),
    "tls": Lazy(
        "sluice.cli.tls",
        "show",
        "Show the doors' certificate, and how to trust it.",
        metrics=False,
        inside=False,
    ),
    "results": Lazy(
        "sluice.cli.results", "results", "Print what a task counted: filtered, rolled up, sorted."
    ),
    "lines": Lazy("sluice.cli.lines", "lines", "Print the log lines behind a result."),
    "deadletters": Lazy(
        "sluice.cli.dead_letters",
        "app",
        "Lines that no task counts: list, show and export them, replay them into another topic.",
    ),
    "sql": Lazy("sluice.cli.results", "sql", "Run one SQL statement against Hive."),
    "audit": Lazy(
        "sluice.cli.audit", "audit", "Follow the lines from hop to hop and prove that none is lost."
    ),
    "resend": Lazy(
        "sluice.cli.resend",
        "resend",
        "Have the front-ends send again what Kafka lost.",
        metrics=False,
    ),
    "lag": Lazy(
        "sluice.cli.lag",
        "lag",
        "Show how far the archiver and the speed layer are behind, and what rebalances cost.",
        metrics=False,
    ),
    "nightly": Lazy(
        "sluice.cli.nightly",
        "nightly",
        "Compute days again from the archive, compare and publish them.",
        metrics=False,
    ),
    "rebuild": Lazy("sluice.cli.rebuild", "rebuild", "Count state and results again from the archive."),
    "erase": Lazy("sluice.cli.erase", "erase", "Erase a person's lines from a topic, wherever they are."),
    "history": Lazy(
        "sluice.cli.history", "history", "Show who changed what, when, and from where.", metrics=False
    ),
    "archive": Lazy("sluice.cli.archive", "app", "The master dataset on HDFS: verify it, rebuild its index."),
    "lab": Lazy(
        "sluice_lab.commands.grouping",
        "app",
        "The laboratory: strategies of grouping, assignors of consumer groups, placement, chaos.",
        inside=False,
    ),
    "demo": Lazy(
        "sluice.cli.demo.entry",
        "demo",
        "Run the whole platform on one log and prove that its counts agree.",
        metrics=False,
        inside=False,
    ),
}
#: The commands of packages that may not be installed: an image leaves the laboratory out, say.
_OF_PACKAGES = {"sluice_lab": ("lab",), "sluice_hosts": ("hosts", "jobs", "placement")}
for _package, _names in _OF_PACKAGES.items():
    if find_spec(_package) is None:
        for _name in _names:
            del COMMANDS[_name]


class LazyGroup(TyperGroup):
    """A group that knows its commands' names and help, and imports a command only to run it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return entry and TyperCommand(name=cmd_name, help=entry.help, callback=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        self.commands = {name: self.get_command(ctx, name) for name in COMMANDS}  # for "did you mean"
        name, command, rest = super().resolve_command(ctx, args)
        own = rest[: rest.index("--")] if "--" in rest else rest
        if name in COMMANDS and COMMANDS[name].inside and not set(ctx.help_option_names) & set(own):
            _enter()
        return (name, load(name), rest) if name in COMMANDS else (name, command, rest)


def load(name: str) -> Any:
    """The real command of that name."""
    entry = COMMANDS[name]
    target = getattr(import_module(entry.module), entry.attribute)
    if not isinstance(target, typer.Typer):
        wrapped = typer.Typer(add_completion=False, rich_markup_mode=None)
        wrapped.command(name)(target)
        command: Any = typer.main.get_command(wrapped)
    else:
        target.rich_markup_mode = None
        command = typer.main.get_group(target)
        command.no_args_is_help = True
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        each.help = keep_examples(each.help or entry.help)
        if entry.metrics and each.callback:
            each.callback = _with_metrics(each.callback)
    return command


def _with_metrics(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The same command, after the team's metrics are loaded; `--help` does not need them."""

    @wraps(callback)
    def run(*args: Any, **options: Any) -> Any:
        from sluice.metrics import load_team

        load_team()
        return callback(*args, **options)

    return run


def keep_examples(text: str) -> str:
    """Mark paragraphs with indented lines (examples), so that help keeps their line breaks."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(
        f"\b\n{p}" if re.search(r"^ {2,}\S", p, re.MULTILINE) and not p.startswith("\b") else p
        for p in paragraphs
    )


def _choose_instance(name: str | None) -> str | None:
    """Set the instance before any sub-command is imported or any setting is read."""
    if name:
        os.environ["SLUICE_INSTANCE"] = name
        from sluice.runtime.settings import get_settings

        get_settings.cache_clear()
    return name


def _enter() -> None:
    """Enter the instance's network, before the command's imports start threads."""
    from sluice.runtime.settings import Settings
    from sluice.stack.networking import network

    settings = Settings()
    network.enter(settings)
    _entered.append(settings)


def _version(wanted: bool) -> None:
    if wanted:
        from sluice.runtime.installed import own_version

        typer.echo(f"sluice {own_version()}")
        raise typer.Exit()


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def sluice(
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_choose_instance,
            is_eager=True,
            help="The instance to work on: main, demo, test, trial or dev, or one added to "
            "include/settings.yaml. Without it: $SLUICE_INSTANCE, else the one that was brought up last.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Count log lines: seconds old online, exact every night, and proved to agree.

    \b
    A first look:
      sluice demo                                 the whole platform, on one log, in minutes
      sluice status                               what runs
      sluice results hits_by_status               what was counted
      sluice sql "SELECT count(*) FROM raw"       ask the master dataset
      sluice audit                                where each line is, hop by hop
      sluice down                                 stop; the data stays

    \b
    Exit codes: 0 done, 1 it failed or something disagrees, 2 the command was not understood.
    Set SLUICE_DEBUG=1 to see where an error came from.
    """


def main() -> None:
    """The console script: a user's mistake prints a line with the remedy, never a stack trace."""
    if not os.environ.get("SLUICE_DEBUG"):
        # Client libraries log an error before they raise it; its one line is enough.
        logging.getLogger().addHandler(logging.NullHandler())
    say_where()
    terminal.guard()
    try:
        typer.main.get_command(app)(prog_name="sluice")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("SLUICE_DEBUG") or (explained := explain(error)) is None:
            raise
        for settings in _entered:
            explained = remedied(explained, settings)
        typer.echo(f"sluice: {explained.message}", err=True)
        sys.exit(explained.code)


if __name__ == "__main__":
    main()
