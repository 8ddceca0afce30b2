"""What `sluice tasks test` prints: each line, and what the task made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sluice.cli.output.documents import read_bytes, refusing
from sluice.cli.output.format import plain, printable
from sluice.engine.trial import LineTrial, MeasureStep, failure, trial
from sluice.runtime.settings import get_settings
from sluice.tasks import TaskSpec, TasksRefused

if TYPE_CHECKING:
    from sluice.tasks.store import TaskStore


def print_trials(
    store: TaskStore,
    specs: Sequence[TaskSpec],
    file: Path | None,
    *,
    lines: Path | None,
    sample: int,
    as_json: bool,
) -> None:
    """Print what each task would make of lines; exit with 1 if one would fail on them.

    `lines`: a file of lines; None for the newest `sample` lines of each task's topic. Raises FileRefused,
    TopicMissing, TooManyLines.
    """
    given, limits = None if lines is None else _split(read_bytes(lines)), get_settings().limits
    found: list[tuple[str, list[LineTrial], str | None]] = []
    for number, spec in enumerate(specs):
        with refusing(file or Path(spec.name)):
            try:
                resolved, topic = store.resolved(spec)
            except TasksRefused as refused:
                raise refused.under(f"/{number}" if file else "") from None
        some = _newest(spec.topic, sample) if given is None else given
        tried = trial(resolved, topic, some, limits)
        found.append((spec.name, tried, failure(resolved, topic, some, limits)))
    if as_json:
        document = [
            {"task": name, "error": error, "lines": [plain(asdict(each)) for each in tried]}
            for name, tried, error in found
        ]
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        _print(found)
    if any(error for *_, error in found):
        raise typer.Exit(1)


def _print(found: Sequence[tuple[str, list[LineTrial], str | None]]) -> None:
    for name, tried, error in found:
        counted = sum(each.counted for each in tried)
        typer.echo(f"{name}: {counted} of {len(tried)} lines are counted")
        for number, each in enumerate(tried, 1):
            for line in describe(number, each):
                typer.echo(line)
        if error:
            typer.echo(f"\n{name} fails on these lines, and would be set aside: {printable(error)}")


def describe(number: int, tried: LineTrial) -> Iterator[str]:
    """One line's trial, for a person's terminal."""
    yield ""
    yield f"{number:>3}  {printable(tried.line)}"
    for label, text in _steps(tried):
        yield f"     {label:<12}  {printable(text)}"


def _steps(tried: LineTrial) -> Iterator[tuple[str, str]]:
    yield "time", plain(tried.event_time) if tried.event_time else "none found"
    for step in (*tried.where, *tried.dimensions):
        shown = step.verdict if step.value is None else f"{_quoted(step.value)}  {step.verdict}"
        yield step.name, shown if step.passes else f"{shown}: does not pass"
    if tried.measure is not None:
        yield "measure", _measure(tried.measure)
    if not tried.counted:
        yield "not counted", tried.why
        return
    series = "  ".join(f"{name}={_quoted(value)}" for name, value in (tried.series or {}).items())
    period = f"{plain(tried.period_start)} to {plain(tried.period_end)}"
    yield "counted in", f"{period}  {series}".rstrip()


def _measure(measure: MeasureStep) -> str:
    shown = "nothing was extracted" if measure.text is None else _quoted(measure.text)
    if measure.missing:
        return f"{shown}  missing: counted apart"
    return shown if measure.number is None else f"{shown}  = {plain(measure.number)}"


def _split(text: bytes) -> list[bytes]:
    return text.removesuffix(b"\n").split(b"\n") if text else []


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _newest(topic: str, count: int) -> list[bytes]:
    from sluice.transmission.sample import sample

    return sample(get_settings(), topic, count)
