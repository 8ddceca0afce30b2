"""An agent's own counters, read from its JSON over HTTP.

They restart with the agent, and they also count what is sent again. So they show health, not completeness,
which is the byte ledger's business.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

TIMEOUT = 3.0
# Bypass any proxy that the environment names, because an agent is on this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class MetricsUnreachable(ConnectionError):
    """The agent does not answer on its metrics port."""


@dataclass(frozen=True)
class Metrics:
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
        """Nothing is in the channel, and nothing taken from it is still unacknowledged.

        A memory channel's size leaves out what a sink has taken and not yet committed; its counters do not.
        A file channel may hold events of an earlier process, so its counters need not meet; its size has
        them.
        """
        channel = self.channel
        if channel.get("ChannelSize", 1) > 0:
            return False
        return channel.get("EventTakeSuccessCount", 0) >= channel.get("EventPutSuccessCount", 0)


def read(port: int, host: str = "127.0.0.1") -> Metrics:
    """Ask the agent once. Raises MetricsUnreachable."""
    url = f"http://{host}:{port}/metrics"
    try:
        with _DIRECT.open(url, timeout=TIMEOUT) as answer:
            data: dict[str, dict[str, Any]] = json.load(answer)
    except (OSError, urllib.error.URLError, ValueError) as error:
        raise MetricsUnreachable(f"no metrics at {url}: {error}") from error
    return Metrics({name: _numbers(values) for name, values in data.items()})


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    """The values, which Flume writes as text, without those that are not numbers (the type)."""
    numbers = {}
    for name, value in values.items():
        try:
            numbers[name] = float(value)
        except ValueError:
            continue
    return numbers
