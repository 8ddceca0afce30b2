"""`sluice hosts ...`: the machines on which edges and collectors run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.format import Format, write
from sluice.collection.agent import LOCAL

if TYPE_CHECKING:
    from sluice.collection.inventory import FrontEnd
    from sluice.runtime.settings import Settings
    from sluice_hosts.hosts import Host
    from sluice_hosts.trust.login import SshLogin

app = typer.Typer(help="Other machines with agents: enrol, list, check, forget.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The host's name in hosts.yaml.")]
Style = Annotated[Format, typer.Option("--format", help="How to print.")]


@app.command()
def enrol(
    name: Name,
    fingerprint: Annotated[
        str, typer.Option(help="The host key's fingerprint, which you compared on that machine.")
    ] = "",
) -> None:
    """Make a machine one of the instance's hosts, in two steps.

    Without --fingerprint it makes a key for the host and prints it, with the fingerprint of the key that the
    host shows. Put the first into the account's ~/.ssh/authorized_keys there, and compare the second. Then
    confirm the fingerprint: the host's key is pinned, Java and space are checked, and the certificates are
    made. A host with the role collector or jobs also gets a user in Kafka. The first such host has Kafka
    start again, to listen at this machine's address. One with the role jobs has PostgreSQL start again, to
    listen to it.

    Of a host that has a `connection` instead of `ssh`, the Airflow connection is read first. Its key is used
    if it has one. A change of the connection is taken up by `sluice hosts check`, and within a minute or two
    by the DAG `collection`, if the host lets it in.

    Examples:
      sluice hosts enrol web3
      sluice hosts enrol web3 --fingerprint SHA256:Yb0...
    """
    from sluice.cli import exposure, listeners
    from sluice.runtime.settings import get_settings
    from sluice.stack import journal
    from sluice_hosts.trust import database, enrolment

    settings = get_settings()
    host = enrolment.known(settings, name)
    exposure.warn(settings)
    given = _connection(settings, host)
    key = enrolment.public_key(settings, host, given)
    if fingerprint:
        found = enrolment.enrol(settings, host, fingerprint, given)
        database.listen(settings)
        listeners.start_again(settings, typer.echo)
        journal.note(settings, who=me(), what="host", name=name, action="enrolled", after=host.address)
        typer.echo(f"{name}: enrolled; {found.java}; {found.directory}")
        return
    how = given or enrolment.access(settings, host)
    _, shown = enrolment.shown_key(host, how)
    typer.echo(f"1. Put this line into ~/.ssh/authorized_keys of {how.user} at {how.address}:\n{key}")
    typer.echo(f"2. Compare the host's key there (ssh-keygen -lf on /etc/ssh/ssh_host_*_key.pub):\n{shown}")
    typer.echo(f"3. If they are the same: sluice hosts enrol {name} --fingerprint {shown}")


@app.command("list")
def list_(style: Style = Format.TABLE) -> None:
    """Show the hosts, their roles and slots, and the agents that are deployed on them."""
    from sluice.collection import deploy
    from sluice.runtime.settings import get_settings
    from sluice_hosts import hosts
    from sluice_hosts.agents import remnants
    from sluice_hosts.trust import enrolment

    settings = get_settings()
    agents, left = deploy.agents(settings), remnants.known(settings)
    rows = []
    for host in hosts.load(settings).values():
        here = [agent.name for agent in agents if agent.runs_on == host.name]
        here += [f"{agent.name} (left there)" for agent in left if agent.runs_on == host.name]
        known = "this machine" if host.name == LOCAL else enrolment.state(settings, host)
        rows.append((host.name, host.address, ", ".join(host.roles), host.slots, known, ", ".join(here)))
    write(("host", "address", "roles", "slots", "enrolled", "agents"), rows, style)


@app.command()
def check(style: Style = Format.TABLE) -> None:
    """Log in to each enrolled host and look at Java, space, agents and log files.

    What the Airflow connection of a host says now is taken up first.

    A host that does not answer is unknown: its agents may well run. An agent that is stopped is not wrong:
    `sluice down` stops them all. Log files are those of the front-ends in collection.yaml: the account must
    be able to read each one that matches.

    Exit code 1 if something is wrong.
    """
    from sluice.cli import exposure
    from sluice.collection import inventory
    from sluice.runtime.settings import get_settings
    from sluice_hosts import hosts

    settings = get_settings()
    exposure.warn(settings)
    looks: list[_Look] = []
    try:
        front_ends = inventory.load(settings).front_ends
    except inventory.InventoryError as error:
        front_ends = []
        looks.append(_Look("", "wrong", str(error), wrong=True))
    for host in hosts.load(settings).values():
        if host.name != LOCAL:
            looks += _looks(settings, host, [each for each in front_ends if each.runs_on == host.name])
    write(("host", "state", "what"), [(each.host, each.state, each.what) for each in looks], style)
    if any(each.wrong for each in looks):
        raise typer.Exit(1)


def _connection(settings: Settings, host: Host) -> SshLogin | None:
    """What the host's connection in Airflow says now; None if hosts.yaml says how to log in."""
    from sluice.stack.airflow import command
    from sluice_hosts.trust import login

    if host.connection is None:
        return None
    return login.of_connection(settings, host, command.connection(settings, host.connection))


@dataclass(frozen=True)
class _Look:
    """What a look at a host, or at something on it, found."""

    host: str
    state: str
    what: str
    wrong: bool = False


def _looks(settings: Settings, host: Host, front_ends: Iterable[FrontEnd]) -> Iterator[_Look]:
    """Look at a host, the agents that are deployed there, and the log files of its front-ends."""
    from sluice.collection import deploy, health
    from sluice.collection.errors import AgentError, HostUnreachable
    from sluice_hosts.trust import enrolment

    yield from _taken_up(settings, host)
    try:
        yield _Look(host.name, "answers", enrolment.check(settings, host))
    except (AgentError, HostUnreachable) as error:
        state = health.AgentState.UNKNOWN if isinstance(error, HostUnreachable) else "wrong"
        yield _Look(host.name, state, str(error), wrong=True)
        return
    for agent in deploy.agents(settings):
        if agent.runs_on == host.name:
            look = health.check(settings, agent)
            yield _Look(host.name, look.state, look.line(), bool(look.alerts))
    for front_end in front_ends:
        try:
            yield _files(settings, host, front_end)
        except (AgentError, HostUnreachable) as error:
            yield _Look(host.name, "wrong", str(error), wrong=True)


def _taken_up(settings: Settings, host: Host) -> Iterator[_Look]:
    """Take up what the host's connection says now. If that fails, the host is reached as before."""
    from sluice.collection.errors import AgentError, HostUnreachable
    from sluice.stack.airflow.command import ConnectionNotRead
    from sluice_hosts.trust import enrolment

    if enrolment.state(settings, host) != "yes":
        return  # it is said why
    try:
        given = _connection(settings, host)
        if given is not None and enrolment.take_up(settings, host, given):
            yield _Look(host.name, "changed", f"what the connection {host.connection} says now is used")
    except (AgentError, HostUnreachable, ConnectionNotRead) as error:
        yield _Look(host.name, "wrong", str(error), wrong=True)


def _files(settings: Settings, host: Host, front_end: FrontEnd) -> _Look:
    from sluice.collection.pattern import Pattern
    from sluice_hosts.links import readable
    from sluice_hosts.trust import enrolment

    patterns = [Pattern.parse(text, settings.home) for text in front_end.files]
    if count := readable.check(enrolment.link(settings, host), front_end.host, patterns):
        return _Look(host.name, "readable", f"{front_end.host}: {count} log files")
    return _Look(
        host.name, "no files", f"{front_end.host}: nothing there is called {', '.join(front_end.files)}"
    )


@app.command()
def forget(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Give up the agents on a machine that is gone for good, so that it holds up no deployment.

    First take its agents out of collection.yaml. What they had not sent yet is lost: lines in their channels,
    and lines in log files that were not read. A machine that answers is not forgotten while agents are on it,
    because they can be drained. A host's user in Kafka is locked.

    Examples:
      sluice hosts forget web3
    """
    from sluice.cli import listeners
    from sluice.collection import deploy, health
    from sluice.runtime.settings import get_settings
    from sluice.stack import journal
    from sluice.storage.postgres import engine
    from sluice_hosts.agents import forgetting
    from sluice_hosts.trust import database

    settings = get_settings()
    found = forgetting.forgettable(settings, name)
    agents = ", ".join(agent.name for agent in found)
    if not agents:
        typer.echo(f"nothing is deployed on {name}")
    else:
        typer.echo(
            f"{agents}: what was not sent yet is lost. If {name} comes back, its agents go on there: remove "
            "~/.sluice and end their processes on it. On another host give the front-ends other names."
        )
        if not yes:
            typer.confirm(f"Give up {agents} on {name}?", abort=True)
    journal.note(settings, who=me(), what="host", name=name, action="forgotten", before=agents)
    if forgetting.dismiss(settings, name):
        typer.echo(f"{name}: its user in Kafka is locked")
    database.listen(settings, without=name)
    listeners.start_again(settings, typer.echo)
    if agents:
        forgetting.forget(settings, name)
        typer.echo(f"{name}: forgotten; now remove it from hosts.yaml")
        # Nobody looks at those that are gone any more, so nobody else would clear their alerts.
        there = {agent.name for agent in deploy.agents(settings)}
        gone = [agent for agent in found if agent.name not in there]
        stopped = [health.Health(agent.name, health.AgentState.STOPPED) for agent in gone]
        health.report(engine(settings), stopped)
