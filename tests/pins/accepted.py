"""The reasoned list: advisories about what we have that do not reach us, each with why, and until when.

``accepted.yaml`` is a list of entries with the fields of `Entry`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tests.pins.advisories import Finding

FILE = Path(__file__).with_name("accepted.yaml")


class Entry(BaseModel):
    """Advisories with one reason.

    ids: names of the advisories (CVE or GHSA). packages: names as in the table, where * stands for anything.
    where: the jars or files, in the same way. shown: the test, setting or class by which one can see it.
    review_by: on this day the entry begins to fail.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    ids: tuple[str, ...] = Field(min_length=1)
    packages: tuple[str, ...] = Field(min_length=1)
    where: tuple[str, ...] = ("*",)
    reason: str = Field(min_length=20)
    shown: str = Field(min_length=5)
    review_by: datetime.date

    def covers(self, finding: Finding) -> bool:
        return (
            any(fnmatchcase(finding.pin.name, package) for package in self.packages)
            and any(fnmatchcase(finding.pin.where, where) for where in self.where)
            and not {finding.advisory, *finding.aliases}.isdisjoint(self.ids)
        )


def load(file: Path = FILE) -> list[Entry]:
    """The entries. Raises pydantic's ValidationError, which names the entry and the field."""
    return [Entry.model_validate(entry) for entry in yaml.safe_load(file.read_text()) or ()]


def divide(
    findings: Iterable[Finding], entries: Iterable[Entry]
) -> tuple[list[tuple[Finding, Entry]], list[Finding]]:
    """The findings that an entry covers, with it, and those that are open."""
    entries = list(entries)
    covered, still = [], []
    for finding in findings:
        entry = next((entry for entry in entries if entry.covers(finding)), None)
        if entry:
            covered.append((finding, entry))
        else:
            still.append(finding)
    return covered, still


def stale(entries: Iterable[Entry], findings: Iterable[Finding]) -> list[str]:
    """What is to be removed from the list: ids and packages that match nothing any more."""
    findings, said = list(findings), []
    for entry in entries:
        matched = [finding for finding in findings if entry.covers(finding)]
        names = {name for finding in matched for name in (finding.advisory, *finding.aliases)}
        said += [f"{name} of {', '.join(entry.packages)}" for name in entry.ids if name not in names]
        for what, patterns, values in (
            ("package", entry.packages, [finding.pin.name for finding in matched]),
            ("place", entry.where, [finding.pin.where for finding in matched]),
        ):
            said += [
                f"{what} {pattern} of {', '.join(entry.ids)}"
                for pattern in patterns
                if matched and not any(fnmatchcase(value, pattern) for value in values)
            ]
    return said


def overdue(entries: Iterable[Entry], today: datetime.date) -> list[str]:
    return [
        f"{', '.join(entry.ids)} of {', '.join(entry.packages)}: to be reviewed by {entry.review_by}"
        for entry in entries
        if entry.review_by <= today
    ]
