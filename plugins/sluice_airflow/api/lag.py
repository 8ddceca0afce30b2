"""How far the platform's consumers are behind.

A look asks Kafka and PostgreSQL, so the server takes one at a time and gives all who ask at the same time the
same answer.
"""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from sluice.monitoring.lag.consumer_lag import ConsumingJob, LagReport
from sluice.monitoring.lag.measurement import lag_report
from sluice.runtime.settings import get_settings
from sluice.transmission.topics import TopicMissing
from sluice_airflow.api.looks import Looks
from sluice_airflow.api.security import Reader

router = APIRouter(tags=["lag"])


class BehindOut(BaseModel):
    """How far a consumer is behind a topic."""

    topic: str
    consumer: ConsumingJob
    records: int = Field(description="Records in Kafka that wait.")
    seconds: float | None = Field(
        description="How long the oldest of them has waited; null: it could not be read."
    )
    arriving: float = Field(description="Records a second that came, over the last minute.")
    processed: float | None = Field(
        description="Records a second that the consumer processed, over the last minute; null: not known."
    )
    catch_up: float | None = Field(
        description="Seconds until nothing waits, at these rates; null: it never will."
    )


class MemberLagOut(BehindOut):
    """A member of a consumer, and the partitions that it has."""

    member: str
    partitions: list[int]


class PartitionLagOut(BehindOut):
    """One partition."""

    partition: int
    member: str | None = Field(description="Who has it; null: nobody.")
    position: int = Field(description="The offset of the next record that is to be processed.")
    end: int = Field(description="The offset after the last record.")


class StoodStillOut(BaseModel):
    """What a rebalance cost one partition."""

    partition: int
    stood_still: float | None = Field(
        description="Seconds in which nobody read it; null: the next rebalance came before it was read."
    )


class RebalanceOut(BaseModel):
    """What a rebalance of the archiver's group gave to a member, or took from it."""

    at: datetime
    topic: str
    member: str
    generation: int
    why: str
    gained: tuple[int, ...]
    lost: tuple[int, ...]
    stood_still: float | None = Field(
        description="The longest time, in seconds, that a gained partition was read by nobody."
    )
    by_partition: list[StoodStillOut] = Field(description="Each gained partition's time.")


class LagProblemOut(BaseModel):
    """A topic that could not be looked at."""

    topic: str
    message: str


class LagOut(BaseModel):
    """How far the archiver and the speed layer are behind, and the last rebalances, newest first."""

    at: datetime
    topics: list[BehindOut]
    members: list[MemberLagOut]
    partitions: list[PartitionLagOut]
    rebalances: list[RebalanceOut]
    problems: list[LagProblemOut]


_BEHIND = {
    "topic": "logs",
    "consumer": "archiver",
    "records": 1200,
    "seconds": 3.2,
    "arriving": 400.0,
    "processed": 520.0,
    "catch_up": 10.0,
}
_EXAMPLE: dict[str, Any] = {
    "at": "2015-05-17T10:05:03Z",
    "topics": [_BEHIND],
    "members": [{**_BEHIND, "member": "archiver", "partitions": [0]}],
    "partitions": [{**_BEHIND, "partition": 0, "member": "archiver", "position": 98_000, "end": 99_200}],
    "rebalances": [
        {
            "at": "2015-05-17T10:04:00Z",
            "topic": "logs",
            "member": "archiver",
            "generation": 7,
            "why": "archiver-2 left",
            "gained": [0],
            "lost": [],
            "stood_still": 0.4,
            "by_partition": [{"partition": 0, "stood_still": 0.4}],
        }
    ],
    "problems": [],
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"example": _EXAMPLE}}},
    404: {"description": "The platform reads no such topic."},
    503: {"description": "Too many ask, or PostgreSQL does not answer; see `Retry-After`."},
}


@functools.cache
def looks() -> Looks[LagReport]:
    """Those of this server."""
    return Looks(lambda: lag_report(get_settings()), "the lag")


@router.get("/lag", responses=_RESPONSES)
def get_lag(
    user: Reader,
    shared: Annotated[Looks[LagReport], Depends(looks)],
    topic: Annotated[str | None, Query(description="Only this topic.", examples=["logs"])] = None,
) -> LagOut:
    """How far the archiver and the speed layer are behind, by topic, member and partition."""
    report = shared.report()
    if topic is not None:
        report = report.only(topic)
        if not report.partitions and not report.problems:
            raise TopicMissing(f"the platform reads no topic {topic!r}")
    return LagOut.model_validate(report.document())
