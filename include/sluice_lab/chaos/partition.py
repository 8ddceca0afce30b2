"""Cuts ports off, inside the instance's own network, by a table of nftables.

All parts talk over one loopback interface, where a rule knows nothing but ports. So a part is cut off from
all others: no packet from or to one of its ports arrives.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sluice.runtime.settings import Settings

TABLE = "sluice_chaos"


class NotCutOff(RuntimeError):
    """nft refused a rule."""


def why_not(settings: Settings) -> str:
    """Why no part can be cut off here; empty if it can. To be asked inside the instance's network."""
    if not settings.private:
        return "the instance has no network of its own, and no rule is made in the machine's"
    if shutil.which("nft") is None:
        return "there is no nft (Debian: apt install nftables)"
    if problem := _nft("list", "tables"):
        return f"nft may not be used: {problem}"
    return ""


@contextmanager
def cut_off(ports: Sequence[int]) -> Iterator[None]:
    """No packet from or to these ports arrives while the block lasts. Raises NotCutOff."""
    try:
        if problem := _nft("-f", "-", text=rules(ports)):
            raise NotCutOff(problem)
        yield
    finally:
        remove()


def remove() -> None:
    """Remove the rules, if there are any."""
    if TABLE in _listed():
        _nft("delete", "table", "inet", TABLE)


def rules(ports: Sequence[int]) -> str:
    """The table, as nft reads it."""
    those = ", ".join(map(str, ports))
    return (
        f"table inet {TABLE} {{\n chain cut {{\n"
        "  type filter hook input priority 0; policy accept;\n"
        f"  tcp dport {{ {those} }} drop\n  tcp sport {{ {those} }} drop\n }}\n}}\n"
    )


def _listed() -> str:
    return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False).stdout


def _nft(*arguments: str, text: str = "") -> str:
    """What nft complains of; empty if it did what it was told."""
    done = subprocess.run(["nft", *arguments], input=text, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split()) or f"exit code {done.returncode}" if done.returncode else ""
