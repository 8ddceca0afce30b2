"""`sluice resend`: have the front-ends send again what the platform lacks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sluice.quality.resend import Finding
    from sluice.runtime.settings import Settings

POLL_SECONDS = 2.0
#: How long lines may be on their way before the command gives up.
WAIT_SECONDS = 600.0


def resend(
    topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="The topic whose front-ends are asked.")
    ] = "logs",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is missing.")] = False,
) -> None:
    """Have the front-ends send again the lines that Kafka lost before they were counted and archived.

    The DAG `collection` does this by itself after each start of a broker; this asks for it once more. It
    waits until nothing that was sent is on its way, finds the lines of the front-ends' files that the byte
    ledger lacks (and those that the archive lacks, where Kafka lost what was not archived yet), and has each
    edge read its files again from the first of them. Lines that come twice are recognised and count once.

    Producers that are no front-ends cannot be asked. Of a topic into which only they write, the command says
    so, and clears the alerts.

    Examples:
      sluice resend --dry-run    what is missing
      sluice resend              send it again, and wait until it is counted and archived

    Exit code 1 if lines are missing afterwards, because their files are gone, say; with --dry-run if any are.
    """
    from sluice.runtime.settings import get_settings

    settings = get_settings()
    _require(settings, topic)
    raise typer.Exit(_show(settings, topic) if dry_run else _ask(settings, topic))


def _require(settings: Settings, topic: str) -> None:
    """Refuse a topic into which no edge sends, and of which nothing can be lost."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables import open_losses

    topics = _edge_topics(settings)
    if topic not in topics and not open_losses.of_topic(engine(settings), topic):
        raise typer.BadParameter(
            f"no deployed edge sends into {topic!r} (edges send into: {', '.join(topics) or 'none'}): only "
            "front-ends can send again",
            param_hint="--topic",
        )


def _edge_topics(settings: Settings) -> list[str]:
    from sluice.collection import deploy

    return sorted({agent.topic for agent in deploy.agents(settings) if agent.tier == "edge"})


def _show(settings: Settings, topic: str) -> int:
    from sluice.quality.loss_watch import NOBODY_SENDS
    from sluice.quality.resend import Resend
    from sluice.storage.postgres import engine
    from sluice.storage.tables import open_losses

    if topic not in _edge_topics(settings):
        typer.echo(f"{topic}: {NOBODY_SENDS}")
        return 1
    resend = Resend(settings, topic, open_losses.of_topic(engine(settings), topic))
    deadline = time.monotonic() + WAIT_SECONDS
    while (finding := resend.find()) is None:
        _pause(deadline)
    for line in described(finding):
        typer.echo(line)
    return 1 if finding.lost or finding.away else 0


def described(finding: Finding) -> list[str]:
    """What is missing, a line each."""
    found = [f"would be sent again from byte {each.first:,}: {each}" for each in finding.lines]
    found += [f"lost, because the file is gone: {each}" for each in finding.gone]
    if finding.others:
        found.append("records of other producers are missing: have them send again what they still have")
    found += [f"{name} cannot be asked now: {why}" for name, why in finding.away.items()]
    return found or ["nothing is missing"]


def _ask(settings: Settings, topic: str) -> int:
    from sluice.quality.loss_watch import LossWatch, for_good
    from sluice.storage.postgres import engine
    from sluice.storage.tables import alerts, open_losses

    database = engine(settings)
    if not open_losses.of_topic(database, topic):
        typer.echo(f"{topic}: no layer has read the topic yet, so Kafka lost nothing that counts")
        return 0
    open_losses.ask(database, topic)
    watch, deadline = LossWatch(settings), time.monotonic() + WAIT_SECONDS
    said: list[str] = []
    while any(each.topic == topic for each in open_losses.open_losses(database)):
        for line in (found := watch.look(topic)):
            typer.echo(line)
        said += found
        if watch.waits_for_edges(topic):
            typer.echo("the DAG collection tries again every ten minutes", err=True)
            return 1
        _pause(deadline)
    if topic not in _edge_topics(settings):
        return 0  # what was said tells all
    lost = [each.message for each in alerts.open_alerts(database) if each.name == for_good(topic)]
    for line in lost or [f"{topic}: nothing is missing"]:
        if line not in said:
            typer.echo(line)
    return 1 if lost else 0


def _pause(deadline: float) -> None:
    if time.monotonic() > deadline:
        typer.echo(
            f"lines were still on their way after {WAIT_SECONDS:g} s: `sluice audit` says which; the DAG "
            "collection goes on with what was asked for",
            err=True,
        )
        raise typer.Exit(1)
    time.sleep(POLL_SECONDS)
