"""What an attack came to."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How far an attempt got, least first."""

    UNREACHABLE = "unreachable"  # nothing is there for this user
    REFUSED = "refused"  # something is there and says no
    ANSWERED = "answered"  # it says something that no secret is in
    READ = "read"
    CHANGED = "changed"
    EXECUTED = "executed"


#: What no stranger may achieve.
HARM = frozenset({Outcome.READ, Outcome.CHANGED, Outcome.EXECUTED})
DETAIL_CHARACTERS = 200


@dataclass(frozen=True)
class Finding:
    """One attempt at one door: a port by its name, `files` or `processes`."""

    door: str
    attempt: str
    outcome: Outcome
    detail: str = ""


class Report:
    """Collects findings; its methods may be called by many threads."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._lock = threading.Lock()

    def add(self, door: str, attempt: str, outcome: Outcome, detail: object = "") -> None:
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        with self._lock:
            self._findings.append(Finding(door, attempt, outcome, text[:DETAIL_CHARACTERS]))

    def rows(self) -> list[dict[str, str]]:
        """The findings, as they are printed."""
        with self._lock:
            return [asdict(each) for each in self._findings]
