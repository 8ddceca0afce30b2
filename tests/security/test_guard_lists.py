"""What the SQL endpoint's guard allows, and that it knows all functions, options and classes of Spark.

`refused.txt` has what is on none of the guard's lists. A new Spark makes these tests fail until somebody has
decided on what it brings: `python -m tests.security.test_guard_lists` writes the file again; read what came
into it.
"""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from filelock import FileLock

from sluice.runtime.files import write_whole
from sluice.runtime.jvm import QUICK, java
from sluice.stack.environment import spark_home
from sluice.stack.jars import ENDPOINT, JAVA, require

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
REFUSED = HERE / "refused.txt"
SETUP = (
    "CREATE TABLE t (host STRING, path STRING, status INT, bytes BIGINT, event_time TIMESTAMP, day STRING) "
    "USING parquet",
    "CREATE TABLE task_results (task STRING, period_start TIMESTAMP, dims MAP<STRING, STRING>, "
    "results MAP<STRING, DOUBLE>, day STRING) USING parquet PARTITIONED BY (day)",
    "CREATE VIEW a_view AS SELECT host, CAST(bytes AS STRING) AS b FROM t",
    "CREATE VIEW fine AS SELECT day, count(*) AS n FROM task_results GROUP BY day",
)
OPENS = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent "
    "java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
)
#: Of Spark itself, with which it refuses a statement before the guard sees all of it.
SPARKS_OWN = ("TABLE_OR_VIEW_NOT_FOUND", "PARSE_SYNTAX_ERROR")


def statements(name: str) -> list[str]:
    """The statements of a file, a line each."""
    lines = (HERE / "statements" / f"{name}.sql").read_text().splitlines()
    return [line for line in lines if not line.startswith("--")]


def listed(source: str, wanted: str) -> set[str]:
    """One of the guard's lists; the names of classes in full."""
    text = (JAVA / "spark" / source).read_text()
    found = re.search(rf'{wanted} =\s*Names\.\w+\(\s*"""(.*?)"""', text, re.DOTALL)
    assert found is not None, wanted
    return full(found[1])


def full(text: str) -> set[str]:
    """The words; those below a word that ends with a colon, each with that one in front."""
    found, head = set(), ""
    for word in text.split():
        if word.endswith(":") and len(word) > 1:
            head = word[:-1] + "."
        else:
            found.add(head + word)
    return found


class Inspected:
    """What Spark has, and what the guard said."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.found: dict[str, set[str]] = defaultdict(set)
        self.examples: dict[str, set[str]] = defaultdict(set)
        self.answers: dict[tuple[str, str], str] = {}
        for line in output.splitlines():
            kind, *words = line.split("\t")
            if kind == "answer":
                role, statement, said = words
                self.answers[role, statement] = said
            elif kind == "example":
                self.examples[words[0]].add(words[1])
            else:
                self.found[kind].add(".".join(words))

    def refused(self) -> dict[str, set[str]]:
        """What Spark has and the guard's lists do not."""
        plans = set[str]().union(*(listed("Plans.java", name) for name in PLANS))
        options = {each for each in self.found["option"] if each.split(".")[0] not in FUNCTIONS_OPTIONS}
        options |= {
            each
            for each in self.found["option"] - options
            if each.split(".", 1)[1].lower() not in listed("Options.java", "OF_FUNCTIONS")
        }
        return {
            "expression": self.found["expression"] - listed("Expressions.java", "ALLOWED"),
            "plan": self.found["plan"] - plans,
            "option": options,
        }


PLANS = ("QUERIES", "READING", "CHANGING", "OPENING")
#: Where Spark keeps the options of the functions for JSON and CSV.
FUNCTIONS_OPTIONS = ("CSVOptions", "JSONOptions")


def inspect(given: list[tuple[str, str]]) -> Inspected:
    """Send these statements, each by somebody with that role."""
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS.split()]
    jars = spark_home() / "jars"
    path = os.pathsep.join([str(require("spark") / ENDPOINT), str(jars / "*")])
    with TemporaryDirectory() as folder:
        file = Path(folder) / "statements"
        lines = (f"{role}\t{' '.join(text.split())}" for role, text in given)
        file.write_text("\n".join(lines).replace("{folder}", folder) + "\n")
        log = Path(folder) / "log"
        with log.open("w") as errors:
            done = subprocess.run(
                [
                    *(java(), *QUICK.split(), "-Xmx1g", "-Xss4m", *opens, "-cp", path),
                    *(str(HERE / "Inspect.java"), str(jars), f"{folder}/warehouse", str(file)),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                check=False,
            )
        assert done.returncode == 0, log.read_text()[-3000:]
        return Inspected(done.stdout.replace(folder, "{folder}"))


GIVEN = {
    "user": ("ordinary", "never"),
    "service": ("owner", "never"),
    "viewer": ("viewer", "viewer_not"),
}


def everything() -> Inspected:
    """All statements of the files, by whom they are about."""
    sent = [(role, text) for role, names in GIVEN.items() for name in names for text in statements(name)]
    setup = [("setup", text) for text in SETUP]
    others = [(role, text) for role in ("removed", "opening") for text in ("SELECT 1", "USE default")]
    return inspect([*setup, *sent, *others])


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    """One run for the tests of all processes: it takes half a minute of CPU."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    kept = folder / "inspected"
    with FileLock(kept.with_suffix(".lock")):
        if not kept.exists():
            write_whole(kept, everything().output)
        return Inspected(kept.read_text())


def said(inspected: Inspected, role: str, name: str) -> Iterator[tuple[str, str]]:
    for statement in statements(name):
        yield statement, inspected.answers[role, statement]


def test_every_name_on_a_list_is_one_of_spark_and_is_needed(inspected: Inspected) -> None:
    """What no statement of the files and no example needs is not on a list."""
    allowed = listed("Expressions.java", "ALLOWED").union(*(listed("Plans.java", each) for each in PLANS))
    assert allowed - inspected.found["expression"] - inspected.found["plan"] == set()
    assert allowed - inspected.found["used"] == set()
    known = {each.split(".", 1)[1].lower() for each in inspected.found["option"]}
    assert listed("Options.java", "OF_FUNCTIONS") - known == set()


def test_what_is_computed_while_a_statement_is_planned_is_one_of_spark(inspected: Inspected) -> None:
    assert listed("Folding.java", "CHEAP") - inspected.found["expression"] == set()


def test_everything_that_spark_has_is_decided_on(inspected: Inspected) -> None:
    """Whatever is on no list is refused; a new Spark's news must be written down after they were read."""
    written: dict[str, set[str]] = defaultdict(set)
    for block in REFUSED.read_text().split("\n\n"):
        kind, _, text = block.partition("\n")
        written[kind.strip("# ")] = full(text)
    for kind, found in inspected.refused().items():
        assert found - written[kind] == set(), f"new in Spark: {kind}"
        assert written[kind] - found == set(), f"gone from Spark, or allowed: {kind}"


def test_every_function_is_allowed_or_refused_by_name(inspected: Inspected) -> None:
    registry = {each.rsplit(".", 1)[0] for each in inspected.found["function"]}
    source = (JAVA / "spark" / "Functions.java").read_text()
    allowed = listed("Functions.java", "ALLOWED")
    refused = {
        name
        for text in re.findall(r'words\(\s*"+(.*?)"+\)', source.split("REFUSED =")[1], re.DOTALL)
        for name in text.split()
    }
    assert allowed & refused == set()
    assert allowed | refused == registry


def test_the_examples_of_spark_show_which_functions_may_be_called(inspected: Inspected) -> None:
    allowed = listed("Functions.java", "ALLOWED")
    shown = 0
    for name, examples in inspected.examples.items():
        for example in examples:
            answer = inspected.answers["user", example]
            if name not in allowed:
                assert "not allowed" in answer, (name, example)
            elif re.search(r"\b(time ?'|to_time|make_time)", example, re.IGNORECASE):
                assert "UNSUPPORTED_TIME_TYPE" in answer or answer == "", (name, example)
            else:
                assert not answer, (name, example, answer)
                shown += 1
    assert shown > 900


def test_ordinary_queries_pass(inspected: Inspected) -> None:
    for role, name in (("user", "ordinary"), ("service", "owner"), ("viewer", "viewer")):
        for statement, answer in said(inspected, role, name):
            assert not answer.startswith("!"), (statement, answer)


def test_a_variable_of_the_server_stays_a_text(inspected: Inspected) -> None:
    (statement,) = [each for each in statements("ordinary") if "${" in each]
    assert inspected.answers["user", statement] == (
        "= [[${env:HOME},${system:user.name},${hiveconf:x},${spark.master}]]"
    )


@pytest.mark.parametrize("role", ["user", "service"])
def test_nobody_may(inspected: Inspected, role: str) -> None:
    for statement, answer in said(inspected, role, "never"):
        assert answer.startswith("!"), statement
        assert "not allowed" in answer or any(each in answer for each in SPARKS_OWN), (statement, answer)


def test_a_viewer_reads_no_lines(inspected: Inspected) -> None:
    for statement, answer in said(inspected, "viewer", "viewer_not"):
        assert "the role viewer may read results only" in answer, (statement, answer)
        assert "ask for the role user" in answer, statement


def test_who_was_removed_and_who_is_not_in_yet_may_nothing(inspected: Inspected) -> None:
    for role, statement, allowed in (
        ("removed", "SELECT 1", False),
        ("removed", "USE default", False),
        ("opening", "SELECT 1", False),
        ("opening", "USE default", True),
    ):
        assert ("not allowed" not in inspected.answers[role, statement]) == allowed, (role, statement)


def write_down() -> None:
    """Write what is on no list, by kind and package."""
    blocks = []
    for kind, names in everything().refused().items():
        heads: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            head, _, last = name.rpartition(".") if kind != "option" else name.partition(".")
            heads[head].append(last)
        lines = [f"# {kind}"]
        for head, lasts in heads.items():
            lines += [f"{head}:", *textwrap.wrap(" ".join(lasts), 104, break_on_hyphens=False)]
        blocks.append("\n".join(lines))
    REFUSED.write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    write_down()
