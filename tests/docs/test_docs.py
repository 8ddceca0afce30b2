"""The docs name commands, targets, packages, DAGs, ports and files: all of them must exist."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from sluice.cli import reference
from sluice.cli.main import COMMANDS, load
from sluice.runtime.settings import ROOT

PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
)
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[^)]*)?\)")
# Paths in code spans that need not exist: they are made at run time or stand for many.
MADE = re.compile(r"^(var|raw)/|[<>*{}]|NNNN")


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def code(text: str) -> list[str]:
    return [a or b for a, b in CODE.findall(text)]


def table_under(text: str, header: str) -> list[list[str]]:
    """The rows of the first table whose header begins with these words."""
    lines = text[text.index(f"| {header}") :].splitlines()
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


def dag_ids() -> set[str]:
    found = set()
    for path in (ROOT / "dags").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "DAG":
                found.add(node.args[0].value)  # type: ignore[attr-defined]
    return found


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.MULTILINE))


#: A secret among a command's words, where every user of the machine sees it, or in its environment.
TYPED = re.compile(
    r"""(?xi)
      (?:^|\s)-n\s\S+\s+-p\s?\S                        # Beeline's
    | (?:^|\s)--?(?:password|passwd|token|secret)[= ]\S    # of anything
    | (?:^|\s)(?:-u|--user)[ ](?!jdbc:)\S+:\S                     # curl's
    | \w+://[^/\s:@]+:[^/\s@]+@                          # in an address
    | ["']password["']\s*:                               # in a body
    | Authorization:\s*(?:Bearer|Basic)\s+\S             # in a header
    | \b\w*(?:PASSWORD|PASSWD|SECRET|TOKEN)=(?!\$\()\S   # before the command
    """
)
PROGRAMS = "curl|java|psql|beeline|sluice|docker|podman|ssh"
COMMAND = re.compile(rf"(?m)^\s*(?:[$#]\s+)?(?:[A-Z_]+=\S+\s+)*(?:{PROGRAMS})\b")


def commands(text: str) -> list[str]:
    """The commands of shells in a page, each with the lines that go on."""
    blocks = re.findall(r"```(?:sh|bash|console|shell)\n(.*?)```", text, re.DOTALL)
    joined = [re.sub(r"\s*#.*", "", line) for block in blocks for line in _joined(block)]
    return joined + [span for span in re.findall(r"`([^`\n]+)`", text) if COMMAND.match(span)]


def _joined(block: str) -> list[str]:
    return re.sub(r"\\\n\s*", " ", block).splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_command_has_a_secret_among_its_words(page: Path) -> None:
    assert [command for command in commands(page.read_text()) if TYPED.search(command)] == []


def test_no_help_text_has_one_either() -> None:
    shown = [line for line in text_of("docs/cli.md").splitlines() if line.startswith("    ")]
    assert [line for line in shown if TYPED.search(line)] == []


@pytest.mark.parametrize(
    "command",
    [
        "java org.apache.hive.beeline.BeeLine -u jdbc:hive2://h:1/x -n ann -p PASSWORD -e 'SELECT 1'",
        "curl -s -u ann:secret http://127.0.0.1",
        "curl --user ann:$PW http://127.0.0.1",
        'curl $at/auth/token -d \'{"username": "admin", "password": "..."}\'',
        'curl -H "Authorization: Bearer $token" $at',
        "psql postgresql://sluice:secret@127.0.0.1/sluice",
        "PGPASSWORD=secret psql -h 127.0.0.1",
        "sluice users add ann --password secret",
    ],
)
def test_a_secret_among_a_command_s_words_is_found(command: str) -> None:
    assert TYPED.search(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    if page.name == "cli.md":
        return
    for piece in code(page.read_text()):
        for line in piece.splitlines():
            for call in re.finditer(r"(?:^|[\s/|])sluice ((?:--\w+ \S+ )*)([a-z]+)(.*)", line.split("#")[0]):
                name, rest = call[2], call[3].split("|")[0].split(" -- ")[0]
                assert name in COMMANDS, f"{line!r} names no command"
                command = load(name)
                sub = rest.split()[0] if rest.split() else ""
                if hasattr(command, "commands"):
                    assert not sub or sub in command.commands or not sub[0].isalpha(), line
                    command = command.commands.get(sub, command)
                known = {option for p in command.params for option in p.opts} | {"--help"}
                used = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", re.sub(r'"[^"]*"|\'[^\']*\'', "", rest)))
                assert used <= known, f"{line!r}: {used - known} is no option of {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    used = {
        name
        for piece in code(page.read_text())
        for name in re.findall(r"(?m)^\s*(?:\$ )?make ([a-z][a-z-]*)", piece)
    }
    assert used <= make_targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    named = {
        piece
        for piece in code(page.read_text())
        if re.fullmatch(r"(include|docs|dags|jobs|plugins|tests)/[\w./-]+", piece) and not MADE.search(piece)
    }
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_table_of_dags_is_the_folder() -> None:
    assert {row[0] for row in table_under(text_of("docs/architecture.md"), "DAG")} == dag_ids()


def test_the_table_of_ports_is_the_settings() -> None:
    settings = yaml.safe_load(text_of("include/settings.yaml"))
    listed = {name: int(offset) for name, offset in table_under(text_of("docs/security.md"), "port")}
    assert listed == settings["port_offsets"]
    for name, base in settings["port_bases"].items():
        assert f"`{name}` {base}" in text_of("docs/security.md")


@pytest.mark.slow
def test_the_command_line_page_is_what_the_commands_say() -> None:
    page = ROOT / "docs" / "cli.md"
    assert page.read_text() == reference.markdown(), "run: python -m sluice.cli.reference > docs/cli.md"


def test_the_first_tasks_of_the_demo_page_are_there() -> None:
    names = {task["name"] for task in yaml.safe_load(text_of("include/tasks.yaml"))}
    block = next(piece for piece in code(text_of("docs/demo.md")) if piece.startswith("- name:"))
    assert yaml.safe_load(block)[0] in yaml.safe_load(text_of("include/tasks.yaml"))
    assert {"hits_by_status", "bytes_by_path", "hits_by_client"} <= names
