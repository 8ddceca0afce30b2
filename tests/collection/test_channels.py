"""What a channel held at a time is handed on once as many blocks left it, whatever came behind them."""

from __future__ import annotations

import pytest

from sluice.collection import lifecycle
from sluice.collection.agent import Agent
from sluice.collection.channels import PUT, SIZE, TAKEN, AgentRestarted, marks, still_held
from sluice.collection.metrics import AgentCounters, MetricsUnreachable
from sluice.runtime.settings import Settings

AGENT = Agent("web1", "edge", "logs", "memory", 1_000, 1)


class Channel:
    """What the agent's counters say; None: it does not answer."""

    said: dict[str, float] | None = None

    def counters(self, settings: Settings, agent: Agent) -> AgentCounters:
        if self.said is None:
            raise MetricsUnreachable("no metrics")
        return AgentCounters({"CHANNEL.buffer": self.said})


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Channel:
    made = Channel()
    monkeypatch.setattr(lifecycle, "counters", made.counters)
    return made


@pytest.mark.parametrize(
    "before",
    [
        {TAKEN: 10, PUT: 13, SIZE: 2},  # of a memory channel: the sink has one in hand
        {TAKEN: 10, PUT: 1, SIZE: 3},  # of a file channel: an earlier process put most of it there
    ],
)
def test_what_it_held_is_handed_on_when_as_many_were_taken(
    settings: Settings, channel: Channel, before: dict[str, float]
) -> None:
    channel.said = before
    held = marks(settings, [AGENT])
    channel.said = {TAKEN: 12, PUT: 90, SIZE: 50}
    assert still_held(settings, held) == held
    channel.said = {TAKEN: 13, PUT: 90, SIZE: 50}
    assert still_held(settings, held) == []


def test_an_empty_channel_held_nothing(settings: Settings, channel: Channel) -> None:
    channel.said = {TAKEN: 10, PUT: 10, SIZE: 0}
    assert still_held(settings, marks(settings, [AGENT])) == []


def test_an_agent_that_does_not_answer_holds_nothing_up(settings: Settings, channel: Channel) -> None:
    assert marks(settings, [AGENT]) == []
    channel.said = {TAKEN: 10, PUT: 13, SIZE: 3}
    held = marks(settings, [AGENT])
    channel.said = None
    assert still_held(settings, held) == []


def test_an_agent_that_was_started_again_is_noticed(settings: Settings, channel: Channel) -> None:
    channel.said = {TAKEN: 10, PUT: 13, SIZE: 3}
    held = marks(settings, [AGENT])
    channel.said = {TAKEN: 0, PUT: 2, SIZE: 5}
    with pytest.raises(AgentRestarted, match="web1 was started again"):
        still_held(settings, held)
