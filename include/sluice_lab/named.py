"""Strategies, streams and clusters by the names that a person types.

Examples: `kg2:support=0.01`, `move@2.5:edu`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from sluice import grouping
from sluice.grouping.base import Strategy, WorkerCluster
from sluice.tasks.extract import Extract
from sluice_lab import clusters
from sluice_lab.drift import KINDS, Drift
from sluice_lab.streams import (
    Independent,
    NoSuchStream,
    Stream,
    edu_stream,
    isp_stream,
    zipf_stream,
)

ZIPF_KEYS = 1_000_000
DRIFT_AT = 1.5
STREAMS = ("edu", "isp", "zipf:Z[:KEYS]", *(f"{kind}[@BATCH]:STREAM" for kind in KINDS), "file:PATH")

TIMES: dict[str, Callable[[int], WorkerCluster]] = {
    "equal": clusters.equal,
    "slow": clusters.one_slow,
    "spread": clusters.spread,
    "network": clusters.network,
}


class NoSuchParameter(ValueError):
    """The strategy has no such parameter, or the value cannot be read."""


class NoSuchTimes(ValueError):
    """The laboratory does not have these times, or not for this number of workers."""


def stream(name: str, extract: Extract | None = None) -> Stream:
    """The stream of that name (`STREAMS`). extract: how a file's keys are cut out of its lines.

    Raises NoSuchStream.
    """
    kind, _, rest = name.partition(":")
    if kind == "file" and rest:
        from sluice_lab.recorded_streams import recorded

        return recorded(Path(rest), extract)
    kind, _, at = kind.partition("@")
    for each in KINDS:
        if kind == each:
            return Drift(_steady(rest), each, at=_number(at, name) if at else DRIFT_AT)
    return _steady(name)


def strategy(name: str) -> Strategy:
    """The strategy of that name, with the parameters that the name sets: `kg2:support=0.01`.

    Raises UnknownStrategy, NoSuchParameter, ParameterOutOfBounds.
    """
    kind, *settings = name.split(":")
    known = [field.name for field in fields(grouping.strategy(kind))]
    parameters = {}
    for setting in settings:
        parameter, _, value = setting.partition("=")
        try:
            parameters[known[known.index(parameter)]] = json.loads(value)  # a number, true, false or null
        except ValueError as error:
            raise NoSuchParameter(
                f"strategy {name!r}: {setting!r} sets nothing; write NAME=VALUE, NAME being one of "
                f"{', '.join(known) or 'none: it has no parameters'}"
            ) from error
    return grouping.strategy(kind, **parameters)


def cluster(name: str, workers: int) -> WorkerCluster:
    """W workers with the times of that name (`TIMES`), or with the times given: `1,1,2.5`.

    Raises NoSuchTimes.
    """
    if name in TIMES:
        return TIMES[name](workers)
    try:
        times = tuple(float(part) for part in name.split(","))
        given = WorkerCluster(times)
    except ValueError as error:
        raise NoSuchTimes(
            f"times {name!r}: use {', '.join(TIMES)}, or each worker's time: 1,1,2.5"
        ) from error
    if given.workers != workers:
        raise NoSuchTimes(f"times {name!r} are for {given.workers} workers; {workers} were asked for")
    return given


def _steady(name: str) -> Independent:
    match name.split(":"):
        case ["edu"]:
            return edu_stream()
        case ["isp"]:
            return isp_stream()
        case ["zipf", z]:
            return zipf_stream(_number(z, name), ZIPF_KEYS)
        case ["zipf", z, keys] if keys.isdecimal():
            return zipf_stream(_number(z, name), int(keys))
        case _:
            raise _no_such(name)


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _no_such(name) from error


def _no_such(name: str) -> NoSuchStream:
    return NoSuchStream(f"stream {name!r}: use one of {', '.join(STREAMS)}")
