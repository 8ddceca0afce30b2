"""Every assignor by name: Kafka's own classes, asked in one process, and ours."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from sluice.assignment.assign import assign
from sluice.assignment.base import AssignedPartition, Assignment, Group
from sluice.assignment.cooperative import this_round
from sluice.runtime.jvm import LIB, STAMP, java_command
from sluice.stack.jars import POMS, compile_classes, require
from sluice_lab.processes import LaboratoryFailed

OURS = "ours"
#: Kafka's, as Assignors.java knows them: in the group's leader, and (KIP-848) in the broker.
KAFKAS = ("range", "roundrobin", "sticky", "cooperative-sticky", "kip848-uniform", "kip848-range")
ALL = (*KAFKAS, OURS)
_SECONDS = 120
#: The laboratory's own classes: assignors that are asked, a consumer and a producer of Kafka's.
JAVA = Path(__file__).parents[1] / "java"
CLASSES = LIB / "lab"


@dataclass(frozen=True)
class AssignorAnswer:
    """An assignment, the rounds until it is complete, and the milliseconds to compute one round, the
    quickest."""

    assignment: Assignment
    rounds: int
    milliseconds: float


def ask(questions: Sequence[tuple[str, Group]], repeats: int = 1) -> list[AssignorAnswer]:
    """What each named assignor makes of each group, in the order of the questions."""
    kafkas = [(place, name, group) for place, (name, group) in enumerate(questions) if name != OURS]
    answers: dict[int, AssignorAnswer] = {}
    if kafkas:
        found = _java([_case(name, group) for _, name, group in kafkas], repeats)
        answers = {place: _answer(each) for (place, _, _), each in zip(kafkas, found, strict=True)}
    return [
        answers[place] if place in answers else _ours(group, repeats)
        for place, (_, group) in enumerate(questions)
    ]


def command(main_class: str, heap: str, *args: str, quick: bool = False) -> list[str]:
    """The command line of a Java program: the laboratory's, named without a package, or Kafka's."""
    name = main_class if "." in main_class else f"sluice.lab.{main_class}"
    options = ["-Dlog4j2.level=ERROR"]
    return java_command(
        "kafka", name, args, heap=heap, options=options, classpath=[java_classes()], quick=quick
    )


def kafka_version() -> str:
    """The version of Kafka whose classes are asked and run, where the project names it."""
    (version,) = re.findall(r"<kafka\.version>(.+)</kafka\.version>", (POMS / "pom.xml").read_text())
    return str(version)


def _ours(group: Group, repeats: int) -> AssignorAnswer:
    took = []
    wanted: Assignment = {}
    for _ in range(repeats):
        began = time.process_time()
        wanted = assign(group)
        took.append(time.process_time() - began)
    rounds = 1 if this_round(group, wanted) == wanted else 2
    return AssignorAnswer(wanted, rounds, min(took) * 1e3)


def _java(cases: list[dict[str, Any]], repeats: int) -> list[Any]:
    text = json.dumps({"repeats": repeats, "cases": cases})
    try:
        done = subprocess.run(
            command("Assignors", "256m"),
            input=text,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LaboratoryFailed(f"Kafka's assignors did not answer within {_SECONDS} s") from None
    if done.returncode:
        raise LaboratoryFailed(f"Kafka's assignors could not be asked: {done.stderr.strip()[-2000:]}")
    found: list[Any] = json.loads(done.stdout)
    return found


def _case(name: str, group: Group) -> dict[str, Any]:
    return {
        "assignor": name,
        "partitions": dict(group.partitions),
        "members": {
            member.id: {
                "topics": sorted(member.topics),
                "owned": sorted(member.owned),
                "generation": member.generation,
            }
            for member in group.members
        },
    }


def _answer(found: dict[str, Any]) -> AssignorAnswer:
    assignment = {
        member: sorted(AssignedPartition(topic, number) for topic, number in held)
        for member, held in found["assignment"].items()
    }
    return AssignorAnswer(assignment, found["rounds"], found["nanoseconds"] / 1e6)


def java_classes() -> Path:
    """The folder of the laboratory's own classes, compiled against Kafka's jars if sources or jars changed.

    Raises JarsMissing.
    """
    kafka, sources = require("kafka"), sorted(JAVA.glob("*.java"))
    digest = hashlib.sha256((kafka / STAMP).read_bytes())
    for source in sources:
        digest.update(source.read_bytes())
    with FileLock(LIB / ".lab.lock", mode=0o600):
        stamp = CLASSES / STAMP
        if not stamp.exists() or stamp.read_text() != digest.hexdigest():
            shutil.rmtree(CLASSES, ignore_errors=True)
            compile_classes(sources, CLASSES, str(kafka / "*"))
            stamp.write_text(digest.hexdigest())
    return CLASSES
