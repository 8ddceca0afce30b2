"""What the audit found, as text."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from tests.pins import accepted
from tests.pins.accepted import Entry
from tests.pins.advisories import Finding, Known, findings, fixed_by
from tests.pins.pinned import Pin

#: Advisories come every day: after so many days a source says too little. This warns and never fails, so that
#: no test begins to fail by itself.
OLD = datetime.timedelta(days=30)


@dataclass(frozen=True)
class Report:
    """The pins, what is known, and the two kinds of findings."""

    pins: Sequence[Pin]
    known: Known
    entries: Sequence[Entry]
    covered: Sequence[tuple[Finding, Entry]]
    open: Sequence[Finding]

    @staticmethod
    def of(pins: Sequence[Pin], known: Known, entries: Sequence[Entry]) -> Report:
        covered, still = accepted.divide(findings(pins, known), entries)
        return Report(pins, known, entries, covered, still)

    def faults(self) -> list[str]:
        """What makes the audit fail on any day."""
        found = [finding for finding, _ in self.covered]
        return [
            *(f"open: {_line(pin, list(its))}" for pin, its in groupby(self.open, lambda one: one.pin)),
            *(
                f"accepted.yaml: nothing matches {text}: remove it"
                for text in accepted.stale(self.entries, found)
            ),
        ]

    def failed(self, today: datetime.date) -> bool:
        return bool(self.faults() or accepted.overdue(self.entries, today))

    def text(self, today: datetime.date) -> str:
        kinds = Counter(pin.ecosystem for pin in {Pin(p.ecosystem, p.name, p.version, "") for p in self.pins})
        lines = [
            f"audit: {', '.join(f'{count} of {kind}' for kind, count in sorted(kinds.items()))}; "
            f"{len(self.known.records)} advisories"
        ]
        if self.covered:
            lines.append("On the reasoned list (tests/pins/accepted.yaml):")
            for entry in self.entries:
                lines += _accepted(entry, [finding for finding, its in self.covered if its is entry])
        lines += [
            f"warning: {source} is of {date}, {(today - date).days} days ago: docs/audit.md has the remedy"
            for source, date in sorted(self.known.sources.items())
            if today - date > OLD
        ]
        lines += self.faults()
        lines += [f"accepted.yaml: {text}" for text in accepted.overdue(self.entries, today)]
        still, places = {finding.advisory for finding in self.open}, {finding.pin for finding in self.open}
        listed = {finding.advisory for finding, _ in self.covered}
        lines.append(
            f"audit: open advisories: {len(still)}, in {len(places)} places; "
            f"on the reasoned list: {len(listed)}"
        )
        return "\n".join(lines)


def _accepted(entry: Entry, found: Iterable[Finding]) -> list[str]:
    found = list(found)
    rows = sorted({(f.pin.name, f.pin.version, f.pin.where, f.severity, _name(f)) for f in found})
    lines = [
        f"  {name} {version} in {where}: {alias} ({severity})"
        for name, version, where, severity, alias in rows
    ]
    return [*lines, f"    because {entry.reason} Shown by: {entry.shown}. Review by {entry.review_by}."]


def _line(pin: Pin, found: Sequence[Finding]) -> str:
    version = fixed_by(found)
    remedy = f"fixed in {version}" if version else "no version fixes all"
    what = ", ".join(f"{_name(finding)} ({finding.severity})" for finding in found)
    return f"{pin.name} {pin.version} in {pin.where}: {what}; {remedy}"


def _name(finding: Finding) -> str:
    """The number of the CVE, by which people know it, if there is one."""
    names = (finding.advisory, *finding.aliases)
    return next((name for name in names if name.startswith("CVE-")), finding.advisory)
