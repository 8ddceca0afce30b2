"""Make docs/cli.md from the commands' own help.

Run it as ``python -m sluice.cli.reference > docs/cli.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from sluice.cli.main import COMMANDS, app, load

HEADER = """# The command line

Made from the commands' own `--help` by `python -m sluice.cli.reference > docs/cli.md`; a test compares them.
"""
WIDTH = 100


def markdown() -> str:
    """The whole page."""
    group: Any = typer.main.get_command(app)
    pages = [HEADER, _section("sluice", group, 2)]
    for name in COMMANDS:
        pages += [_section(f"sluice {path}", command, 2 + path.count(" ")) for path, command in _walk(name)]
    return "\n".join(pages)


def _walk(name: str) -> Iterator[tuple[str, Any]]:
    command = load(name)
    yield name, command
    for each, child in getattr(command, "commands", {}).items():
        yield f"{name} {each}", child


def _section(path: str, command: Any, level: int) -> str:
    # The page must not depend on the width of anybody's terminal.
    context = command.make_context(
        path, [], resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"{'#' * level} {path}\n```text\n{text}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
