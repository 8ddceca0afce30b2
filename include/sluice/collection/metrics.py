"""An agent's own counters, read from its JSON over HTTP.

They restart with the agent, and they also count what is sent again. So they show health, not completeness,
which is the byte ledger's business.
"""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TIMEOUT = 3.0
_POLL = 0.3
# A batch that passed the interceptor before the input was held may still be on its way into the channel:
# this many readings in a row must show it empty, and the same number of blocks taken in.
_STILL = 3
# Bypass any proxy that the environment names, because an agent is on this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class MetricsUnreachable(ConnectionError):
    """The agent does not answer on its metrics port."""


@dataclass(frozen=True)
class AgentCounters:
    """One reading of an agent's counters.

    ``counters``: {"CHANNEL.buffer": {"ChannelSize": 0.0, ...}, "SINK.to_0": {...}, ...}.
    """

    counters: dict[str, dict[str, float]]

    @property
    def channel(self) -> dict[str, float]:
        return self.counters.get("CHANNEL.buffer", {})

    @property
    def sinks(self) -> dict[str, dict[str, float]]:
        """Each sink's counters, by its name in the agent's configuration."""
        return {
            key.removeprefix("SINK."): value
            for key, value in self.counters.items()
            if key.startswith("SINK.")
        }

    @property
    def missing(self) -> set[str]:
        """Which of source, channel and sink do not run.

        Flume goes on without a component that it could not make.
        """
        running = {
            name.split(".")[0] for name, values in self.counters.items() if values.get("StartTime", 0) > 0
        }
        return {"SOURCE", "CHANNEL", "SINK"} - running

    @property
    def complete(self) -> bool:
        """Whether all its components run."""
        return not self.missing

    @property
    def fill(self) -> float | None:
        """How full the channel is, 0..100, by blocks or by bytes; None before the channel has said so.

        Only a memory channel is bounded by bytes.
        """
        blocks = self.channel.get("ChannelFillPercentage")
        by_bytes = self.counters.get("CHANNEL.bytes", {}).get("ChannelFillPercentage", 0.0)
        return None if blocks is None else max(blocks, by_bytes)

    @property
    def drained(self) -> bool:
        """Nothing is in the channel or on its way into it, and nothing taken from it is unacknowledged.

        A memory channel's size leaves out what a sink has taken and not yet committed; its counters do not.
        A file channel may hold events of an earlier process, so its counters need not meet; its size has
        them.
        """
        channel = self.channel
        # A channel that could not be opened is no empty one.
        if channel.get("ChannelSize", 1) > 0 or channel.get("Unhealthy", 0) > 0:
            return False
        if self.counters.get("SOURCE.taking", {}).get("Taking", 0) > 0:
            return False
        return channel.get("EventTakeSuccessCount", 0) >= channel.get("EventPutSuccessCount", 0)


def read(port: int, host: str = "127.0.0.1") -> AgentCounters:
    """Ask the agent once. Raises MetricsUnreachable."""
    url = f"http://{host}:{port}/metrics"
    try:
        with _DIRECT.open(url, timeout=TIMEOUT) as answer:
            body = answer.read()
    except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
        raise MetricsUnreachable(f"no metrics at {url}: {error}") from error
    return parse(body, url)


def parse(answer: bytes, where: str) -> AgentCounters:
    """The reading in an agent's answer. Raises MetricsUnreachable if it is none, whatever it is."""
    try:
        data: dict[str, dict[str, Any]] = json.loads(answer)
        return AgentCounters({name: _numbers(values) for name, values in data.items()})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MetricsUnreachable(f"no metrics at {where}: {error}") from error


def drain(counters: Callable[[], AgentCounters], seconds: float) -> bool:
    """Wait until a channel whose input is held is empty and has taken nothing more for a while."""
    deadline = time.monotonic() + seconds
    still, before = 0, -1.0
    while time.monotonic() < deadline:
        try:
            now = counters()
        except MetricsUnreachable:
            return False
        put = now.channel.get("EventPutSuccessCount", -1.0)
        still = still + 1 if now.drained and put == before else 0
        before = put
        if still >= _STILL:
            return True
        time.sleep(_POLL)
    return False


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    """The values, which Flume writes as text, without those that are not numbers (the type)."""
    numbers = {}
    for name, value in values.items():
        try:
            number = float(value)
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            numbers[name] = number
    return numbers
