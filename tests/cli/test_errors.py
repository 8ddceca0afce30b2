from pathlib import Path
from typing import Any

import pytest
import sqlalchemy.exc
import yaml
from kafka.errors import InvalidTopicError
from pydantic import BaseModel, ValidationError

from sluice.cli.errors import FAILED, USAGE, Explained, explain, remedied
from sluice.results.written_query import BadMoment
from sluice.runtime.detached import ProcessError
from sluice.runtime.settings import Settings, UnknownInstance


class Shape(BaseModel):
    port: int


def test_a_mistake_of_the_user_is_usage_and_what_broke_is_a_failure() -> None:
    usage = explain(UnknownInstance("instance 'x' has no port base"))
    failed = explain(ProcessError("it did not stop"))
    assert usage is not None
    assert failed is not None
    assert (usage.message, usage.code) == ("instance 'x' has no port base", USAGE)
    assert (failed.message, failed.code) == ("it did not stop", FAILED)


def test_a_daemon_that_is_away_is_one_line_that_says_where_to_look() -> None:
    error = sqlalchemy.exc.OperationalError("select 1", {}, Exception("connection refused\nIs it running?"))
    found = explain(error)
    assert found is not None
    assert found.code == FAILED
    assert found.message.startswith("PostgreSQL does not answer")
    assert found.message.endswith("See `sluice status`.")
    assert "\n" not in found.message
    assert explain(ConnectionRefusedError(111, "Connection refused")) is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing of instance 'test' runs: start it with `sluice --instance test up`"),
        ({"external": ["postgres"]}, "a daemon does not answer: refused. See `sluice status`."),
        ({"hosts": {"postgres": "postgres"}}, "a daemon does not answer: refused. See `sluice status`."),
    ],
)
def test_daemons_that_are_started_elsewhere_are_not_told_to_start(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    found = explain(ConnectionRefusedError("refused"))
    assert found is not None
    settings = Settings(instance="test", home=tmp_path, **given)
    assert remedied(found, settings) == Explained(said, FAILED)
    other = Explained("no such file", USAGE)
    assert remedied(other, settings) == other


def test_a_missing_file_is_named() -> None:
    found = explain(FileNotFoundError(2, "No such file or directory", "access.log"))
    assert found is not None
    assert found.message == "No such file or directory: access.log"
    assert found.code == USAGE


def test_every_wrong_field_is_named() -> None:
    try:
        Shape.model_validate({"port": "x"})
    except ValidationError as error:
        found = explain(error)
    assert found is not None
    assert found.message.startswith("port: ")
    assert found.code == USAGE


def test_invalid_yaml_is_one_line() -> None:
    try:
        yaml.safe_load("a: [")
    except yaml.YAMLError as error:
        found = explain(error)
    assert found is not None
    assert "\n" not in found.message


def test_a_defect_is_not_explained_away() -> None:
    assert explain(ZeroDivisionError("division by zero")) is None
    assert explain(KeyError("x")) is None
    assert explain(BadMoment("x")) is not None


def test_an_argument_that_is_no_text_is_usage() -> None:
    try:
        "\udcff".encode()
    except UnicodeEncodeError as error:
        found = explain(error)
    assert found is not None
    assert (found.message, found.code) == (r"'\udcff' is no text in UTF-8: check what was typed", USAGE)


def test_any_refusal_by_kafka_is_one_line() -> None:
    found = explain(InvalidTopicError("a b"))
    assert found is not None
    assert found.message.startswith("Kafka refused: ")
