"""Where the API's answers come from."""

from __future__ import annotations

import functools
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends

from sluice.results.layers import Layers, StoredLayers
from sluice.runtime.settings import Settings, get_settings
from sluice.stack import jobs
from sluice.stack.progress import SpeedLayerProgress
from sluice.storage.postgres import engine
from sluice.storage.tables import news
from sluice.tasks.lists import ValueLists
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from sluice_airflow.api.hub import Hub
from sluice_airflow.api.reads import Reads


def database() -> sa.Engine:
    """The instance's database."""
    return engine(get_settings())


Database = Annotated[sa.Engine, Depends(database)]


def task_store(database: Database) -> TaskStore:
    return TaskStore(database)


def value_lists(database: Database) -> ValueLists:
    return ValueLists(database)


def topic_store(database: Database) -> TopicStore:
    return TopicStore(database)


def progress() -> SpeedLayerProgress:
    """What the running speed layer says of itself."""
    return jobs.speed_layer(get_settings())


def instance() -> Settings:
    """The instance's settings."""
    return get_settings()


@functools.cache
def layers() -> Layers:
    """Both layers' results, with the final blocks that were read last; one for all requests."""
    return StoredLayers(get_settings())


@functools.cache
def reads() -> Reads:
    """The places of the server's reads of results."""
    return Reads()


@functools.cache
def hub() -> Hub:
    """Those who listen to news."""
    return Hub(news.News(engine(get_settings())).look)


Instance = Annotated[Settings, Depends(instance)]
Tasks = Annotated[TaskStore, Depends(task_store)]
Lists = Annotated[ValueLists, Depends(value_lists)]
Topics = Annotated[TopicStore, Depends(topic_store)]
Progress = Annotated[SpeedLayerProgress, Depends(progress)]
ResultLayers = Annotated[Layers, Depends(layers)]
News = Annotated[Hub, Depends(hub)]
ReadPlaces = Annotated[Reads, Depends(reads)]
