"""What an error means at the terminal: one line with the remedy, and an exit code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings

FAILED, USAGE = 1, 2

#: Errors of the clients that Sluice uses, by the module and name of their classes (importing them all to say
#: that one of them failed would take seconds), and what to tell the user.
_FOREIGN = {
    ("sqlalchemy.", "OperationalError"): "PostgreSQL does not answer",
    ("psycopg2", "OperationalError"): "PostgreSQL does not answer",
    ("sqlalchemy.", "ProgrammingError"): "the database refused the statement; was it set up by `sluice up`?",
    ("kafka.", "NoBrokersAvailable"): "Kafka does not answer",
    ("kafka.", "KafkaTimeoutError"): "Kafka did not answer in time",
    ("kafka.", "KafkaConnectionError"): "Kafka does not answer",
    ("kafka.", "KafkaError"): "Kafka refused",
    ("thrift.", "TTransportException"): "a Thrift server (HBase or the SQL endpoint) does not answer",
    ("thriftpy2.", "TTransportException"): "HBase's Thrift server does not answer",
    ("requests.", "ConnectionError"): "a daemon does not answer",
    ("urllib3.", "MaxRetryError"): "a daemon does not answer",
}


@dataclass(frozen=True)
class Explained:
    message: str
    code: int
    away: bool = field(default=False, compare=False)  # a daemon did not answer


def explain(error: BaseException) -> Explained | None:
    """The line and the exit code for a known error; None for a defect of Sluice."""
    for kind in type(error).__mro__:
        if found := _of_kind(error, kind.__module__, kind.__name__):
            return found
    if isinstance(error, ConnectionError):
        said = f"a daemon does not answer: {_first_line(error)}. See `sluice status`."
        return Explained(said, FAILED, away=True)
    if (
        isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed"
    ):  # an argument's bytes
        return Explained(f"{error.object!r} is no text in UTF-8: check what was typed", USAGE)
    if isinstance(error, OSError) and error.filename:
        return Explained(f"{error.strerror}: {error.filename}", USAGE)
    return None


def remedied(found: Explained, settings: Settings) -> Explained:
    """What to say of an error of a command that asks the instance's daemons.

    If a daemon is away because nothing of the instance runs here, that is said, and how it is started.
    """
    from sluice.stack import supervisord

    elsewhere = settings.hosts or settings.external
    if not found.away or elsewhere or supervisord.running(settings):
        return found
    return Explained(str(supervisord.SupervisorDown(settings)), found.code)


def _of_kind(error: BaseException, module: str, name: str) -> Explained | None:
    if module.startswith(("sluice.", "sluice_hosts.", "sluice_lab.")):
        code = USAGE if isinstance(error, ValueError | LookupError) else FAILED
        return Explained(_text(error), code, away=isinstance(error, ConnectionError))
    if module.startswith("pydantic") and name == "ValidationError":
        return Explained(_fields(error), USAGE)
    if module.startswith("yaml"):
        return Explained(f"not valid YAML: {' '.join(str(error).split())}", USAGE)
    for (prefix, foreign), meaning in _FOREIGN.items():
        if module.startswith(prefix) and name == foreign:
            said = f"{meaning}: {_first_line(error)}. See `sluice status`."
            return Explained(said, FAILED, away="answer" in meaning)
    return None


def _text(error: BaseException) -> str:
    """The message; KeyError's own str() would put it in quotes."""
    quoted = isinstance(error, KeyError) and type(error).__str__ is KeyError.__str__ and len(error.args) == 1
    return str(error.args[0]) if quoted else str(error)


def _first_line(error: BaseException) -> str:
    return (_text(error).strip().splitlines() or [type(error).__name__])[0].rstrip(". ")[:300]


def _fields(error: BaseException) -> str:
    problems: list[dict[str, Any]] = getattr(error, "errors", list)()
    lines = [": ".join(filter(None, (".".join(map(str, p["loc"])), _plain(p["msg"])))) for p in problems]
    return "; ".join(lines) or _text(error)


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")
