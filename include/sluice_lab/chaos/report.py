"""The report of a chaos run: as a document, and as tables in Markdown."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sluice.runtime.files import write_whole
from sluice_lab.chaos.draws import FaultKind
from sluice_lab.chaos.recovery import Recovery
from sluice_lab.chaos.truth import TaskVerdict
from sluice_lab.tables import Cell, TextTable

BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
WIDTH = 110
JSON_FILE, MARKDOWN_FILE = "chaos.json", "chaos.md"


class NoFigures(ValueError):
    """A page cannot be made: there is no report, or no place for it."""


@dataclass(frozen=True)
class FaultRecord:
    """One fault: what, when, how long it lasted, and how long the recoveries took, from its end (seconds).

    A recovery is None if it did not come. cut: bytes that a power cut took, by file.
    """

    kind: str
    part: str
    at: str  # UTC, ISO 8601: its end
    lasted: float
    overlapped: bool  # whether the next fault did not wait for its recovery
    part_seconds: float | None
    platform_seconds: float | None
    cut: Mapping[str, int] = field(default_factory=dict)


@dataclass
class ChaosReport:
    """All that is known of a run."""

    seed: int
    planned: int
    rate: float
    lines: int = 0
    minutes: float = 0.0
    left_out: dict[str, str] = field(default_factory=dict)  # kinds, and why they cannot happen here
    faults: list[FaultRecord] = field(default_factory=list)
    verdicts: list[TaskVerdict] = field(default_factory=list)
    taken: int = 0  # lines that power cuts took from Kafka before a layer had them
    unarchived: int = (
        0  # records that Kafka lost before they were archived; the speed layer may have had them
    )
    repaired: list[str] = field(default_factory=list)  # of the archive
    problems: list[str] = field(default_factory=list)  # what else went wrong

    @property
    def lost(self) -> int:
        """The most lines that one task lacks in one layer: every task counts the same lines."""
        return max((each.lost for each in self.verdicts), default=0)

    @property
    def doubled(self) -> int:
        """The most lines that one task has too many in one layer."""
        return max((each.doubled for each in self.verdicts), default=0)

    @property
    def differing(self) -> int:
        """Results that differ, of all tasks in both layers."""
        return sum(each.differing for each in self.verdicts)

    @property
    def ok(self) -> bool:
        recovered = all(fault.platform_seconds is not None for fault in self.faults)
        compared = bool(self.verdicts) and all(each.right for each in self.verdicts)
        return recovered and compared and not self.problems and len(self.faults) == self.planned

    @property
    def conclusion(self) -> str:
        """One line: whether every line counted once."""
        said = f"lost {self.lost:,}, doubled {self.doubled:,}, differing results {self.differing:,}"
        taken = f"; {self.taken:,} lines were taken from Kafka before a layer had them" if self.taken else ""
        return (
            f"{'held' if self.ok else 'FAILED'}: {len(self.faults)} of {self.planned} faults; {said}{taken}"
        )

    def document(self) -> dict[str, Any]:
        sums = {name: getattr(self, name) for name in ("ok", "lost", "doubled", "differing")}
        return {**asdict(self), **sums}

    def write(self, folder: Path) -> Path:
        """Write both forms into the folder; returns the document's path."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / MARKDOWN_FILE, markdown(self))
        path = folder / JSON_FILE
        write_whole(path, json.dumps(self.document(), indent=1) + "\n")
        return path


def read(path: Path) -> ChaosReport:
    """The report in a file that `ChaosReport.write` made. Raises NoFigures."""
    try:
        found = json.loads(path.read_text())
        known = {name: found[name] for name in ChaosReport.__dataclass_fields__}
    except FileNotFoundError:
        raise NoFigures(f"{path}: there is no report; `sluice lab chaos` writes one") from None
    except (ValueError, KeyError, TypeError) as error:
        raise NoFigures(f"{path} is no report of `sluice lab chaos` ({error})") from error
    known["faults"] = [FaultRecord(**each) for each in known["faults"]]
    known["verdicts"] = [
        TaskVerdict(**{**each, "examples": tuple(each["examples"])}) for each in known["verdicts"]
    ]
    return ChaosReport(**known)


def records(recoveries: Iterable[Recovery], moment: Callable[[float], str]) -> list[FaultRecord]:
    """moment: makes a text of a Unix time."""
    return [
        FaultRecord(
            kind=str(each.fault.kind),
            part=each.fault.part,
            at=moment(each.done.ended),
            lasted=each.fault.seconds,
            overlapped=each.overlapped,
            part_seconds=each.part_seconds,
            platform_seconds=each.platform_seconds,
            cut=each.done.cut,
        )
        for each in recoveries
    ]


def write_page(page: Path, reports: Sequence[ChaosReport]) -> None:
    """Put the reports' figures into the page, between its two marks. Raises NoFigures."""
    text = page.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise NoFigures(f"{page} has no place for figures: the lines {BEGIN} and {END}")
    write_whole(page, f"{head}{BEGIN}\n{markdown(*reports)}\n{END}{tail}")


def markdown(*reports: ChaosReport) -> str:
    """What came of each run, and the tables of all their faults and results."""
    faults = [fault for report in reports for fault in report.faults]
    verdicts = [verdict for report in reports for verdict in report.verdicts]
    text = [
        *([_sum(reports)] if len(reports) > 1 else []),
        *(line for report in reports for line in _of_run(report)),
        "How many faults of each kind happened to each part:",
        happened(faults).markdown(),
        "Seconds until the part worked again, and until the whole platform did, by kind:",
        times(faults, lambda fault: fault.kind, "kind").markdown(),
        "The same by part:",
        times(faults, lambda fault: fault.part, "part").markdown(),
        "Each task's results of each layer, held against DuckDB over the files:",
        _verdicts(verdicts).markdown(),
        *(_item(f"{each.task}, {each.layer}: {example}") for each in verdicts for example in each.examples),
    ]
    return "\n\n".join(text) + "\n"


def _sum(reports: Sequence[ChaosReport]) -> str:
    faults, lines = (sum(len(each.faults) for each in reports), sum(each.lines for each in reports))
    lost, doubled, differing = (
        sum(getattr(each, name) for each in reports) for name in ("lost", "doubled", "differing")
    )
    return (
        f"**{faults:,} faults in {len(reports)} runs, while {lines:,} lines were written: lost {lost:,}, "
        f"doubled {doubled:,}, differing results {differing:,}**"
    )


def _of_run(report: ChaosReport) -> list[str]:
    records = f"{report.unarchived:,} records were lost in Kafka before they were archived."
    return [
        f"Seed {report.seed}: {len(report.faults)} of {report.planned} faults in {report.minutes:.0f} "
        f"minutes, while {report.lines:,} lines were written, {report.rate:g} a second.",
        f"**{report.conclusion}**",
        *(_item(f"Left out, {kind}: {why}.") for kind, why in report.left_out.items()),
        *(_item(f"Repaired in the archive: {what}.") for what in report.repaired),
        *([_item(records)] if report.unarchived else []),
        *(_item(f"PROBLEM: {what}") for what in report.problems),
    ]


def _item(text: str) -> str:
    return textwrap.fill(f"- {text}", WIDTH, subsequent_indent="  ")


def happened(faults: Sequence[FaultRecord]) -> TextTable:
    counts = Counter((fault.part, fault.kind) for fault in faults)
    kinds = [str(kind) for kind in FaultKind if any(fault.kind == kind for fault in faults)]
    rows: list[Sequence[Cell]] = [
        [part, *(counts[part, kind] or None for kind in kinds)]
        for part in sorted({fault.part for fault in faults})
    ]
    return TextTable(["part", *kinds], rows)


def times(faults: Sequence[FaultRecord], key: Callable[[FaultRecord], str], corner: str) -> TextTable:
    columns = [corner, "faults", "part p50", "part max", "platform p50", "platform max", "not recovered"]
    rows: list[Sequence[Cell]] = []
    for name in sorted({key(fault) for fault in faults}):
        own = [fault for fault in faults if key(fault) == name]
        open_ones = sum(fault.platform_seconds is None for fault in own)
        part = _middle_and_most([fault.part_seconds for fault in own])
        whole = _middle_and_most([fault.platform_seconds for fault in own])
        rows.append([name, len(own), *part, *whole, open_ones])
    return TextTable(columns, rows)


def _middle_and_most(seconds: Iterable[float | None]) -> tuple[Cell, Cell]:
    known = [each for each in seconds if each is not None]
    return (statistics.median(known), max(known)) if known else (None, None)


def _verdicts(verdicts: Sequence[TaskVerdict]) -> TextTable:
    columns = ["results", "lost", "doubled", "differing"]
    rows: list[Sequence[Cell]] = []
    for task, layer in dict.fromkeys((each.task, str(each.layer)) for each in verdicts):
        own = [each for each in verdicts if (each.task, each.layer) == (task, layer)]
        rows.append([task, layer, *(sum(getattr(each, name) for each in own) for name in columns)])
    return TextTable(["task", "layer", *columns], rows)
