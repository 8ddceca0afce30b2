"""A front-end's log file names: a directory, and a name with its date.

TAILDIR takes a literal directory and a regular expression for the name; a web server takes strftime. A
pattern is written once, in strftime, and both are derived from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path, PurePosixPath

#: strftime directives a name may use, and what they match.
DIRECTIVES = {"Y": "[0-9]{4}", "m": "[0-9]{2}", "d": "[0-9]{2}", "H": "[0-9]{2}"}
_DATE = frozenset("Ymd")
_CHARACTERS = re.compile(r"[\w./%+@,=~ -]+")


class PatternError(ValueError):
    """A pattern that cannot give its lines an identity, or that TAILDIR cannot follow."""


@dataclass(frozen=True)
class Pattern:
    """An absolute directory, and a file name with strftime directives."""

    directory: Path
    name: str

    @classmethod
    def parse(cls, text: str, home: Path) -> Pattern:
        """Expand ``{home}`` and check the rest; raises PatternError with the remedy."""
        relative = text.removeprefix("{home}/")
        if "{" in relative or "}" in relative:
            raise PatternError("braces other than a leading {home}/: write the path out")
        if not _CHARACTERS.fullmatch(relative):
            raise PatternError("only letters, digits and ./%+@,=~ - are allowed in a path")
        path = PurePosixPath(home, relative) if relative != text else PurePosixPath(text)
        if not path.is_absolute():
            raise PatternError("not absolute: begin it with / or with {home}/")
        if ".." in relative.split("/") or "//" in relative or "." in relative.split("/"):
            raise PatternError('no "..", "." or "//" in a path: write it out')
        if "%" in str(PurePosixPath(relative).parent):
            raise PatternError("a directive in the directory: only the file's name may carry the date")
        found = re.findall(r"%(.?)", path.name)
        if unknown := [d for d in found if d not in DIRECTIVES]:
            raise PatternError(f"%{unknown[0]} is not supported: use %Y, %m, %d and %H")
        if missing := sorted(_DATE - set(found)):
            raise PatternError(
                f"no full date in the file's name (%{', %'.join(missing)} missing): when a name is used "
                "again, lines of the old file that were not yet read are lost; write it like "
                "access.%Y-%m-%d.log"
            )
        return cls(Path(path.parent), path.name)

    @property
    def regex(self) -> str:
        """The file name as the regular expression that TAILDIR matches it with."""
        parts = re.split(r"%(.)", self.name)
        literal = (re.sub(r"([.+])", r"\\\1", part) for part in parts[::2])
        dates = [*(DIRECTIVES[d] for d in parts[1::2]), ""]
        return "".join(a + b for a, b in zip(literal, dates, strict=True))

    def path(self, day: date) -> Path:
        """The file of that day (of its first hour, if the name has an hour)."""
        return self.directory / datetime(day.year, day.month, day.day).strftime(self.name)

    def day(self, name: str) -> date | None:
        """The day in a file's name; None if it is none of these files, or there is no such day."""
        parts = re.split(r"%(.)", self.name)
        text, found = re.escape(parts[0]), set[str]()
        for directive, literal in zip(parts[1::2], parts[2::2], strict=True):
            group = f"(?P<{directive}>{DIRECTIVES[directive]})"
            text += (f"(?P={directive})" if directive in found else group) + re.escape(literal)
            found.add(directive)
        matched = re.fullmatch(text, name)
        try:
            return date(*(int(matched[part]) for part in "Ymd")) if matched else None
        except ValueError:
            return None

    def matches(self, name: str) -> bool:
        """Whether a file of the directory is one of these, by its name."""
        return re.fullmatch(self.regex, name) is not None

    def files(self) -> list[Path]:
        """The files that are there now and match, in the order of their names."""
        if not self.directory.is_dir():
            return []
        return sorted(p for p in self.directory.iterdir() if self.matches(p.name) and p.is_file())
