"""A program: each command of the CLI, in turn, prints what a log line may hold, in every way there is."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer
import typer.main

from sluice.cli import main as program
from sluice.cli.output.format import Format, write

#: Escape sequences, C1 codes, carriage returns, marks of direction, and what a terminal does not show.
TEXT = (
    "a\x1b[2J\x9b2J\x9d0;t\x07\r\x08\x7f\u202ab\u202e\u2066c\u2069\u200f\u2028"
    "\ufeff\U000e0041\udc9b end ü 漢 😀"
)
NAMED = "command"


def walked() -> list[list[str]]:
    """The words of every command, by the CLI's own list."""
    words = []
    for name in program.COMMANDS:
        command = real(name)
        words += [[name, sub] for sub in getattr(command, "commands", {})] or [[name]]
    return words


real = program.load


def hostile(name: str) -> Any:
    """The command with what it does replaced, and no parameters."""
    command = real(name)
    for each in (command, *getattr(command, "commands", {}).values()):
        if not getattr(each, "commands", None):
            each.callback, each.params = _print, []
    return command


def _print(**_: object) -> None:
    data = TEXT.encode("utf-8", "surrogatepass")
    typer.echo(TEXT)
    typer.echo(TEXT, err=True)
    print(TEXT)
    sys.stdout.write(TEXT + "\n")
    sys.stdout.buffer.write(data[:9])
    sys.stdout.buffer.writelines([data[9:12], data[12:], b"\xff\x9b\n"])
    sys.stderr.write(TEXT + "\n")
    for style in Format:
        write(["text"], [[TEXT]], style)
    typer.echo("JSON " + json.dumps([TEXT], ensure_ascii=False))
    raise ValueError(TEXT)


def main() -> None:
    program._enter = lambda: None  # it would look for a running instance
    program.load = hostile
    program.explain = lambda error: type("Told", (), {"message": str(error), "code": 1})
    for words in walked():
        sys.argv = ["sluice", *words]
        out = sys.stdout, sys.stderr
        try:
            program.main()
        except SystemExit as ended:
            sys.stdout.flush()
            sys.stdout, sys.stderr = out
            print(f"{NAMED} {' '.join(words)} {ended.code}", flush=True)


if __name__ == "__main__":
    main()
