"""Loses packets of ports, inside the instance's own network, by a table of nftables.

All parts talk over one loopback interface, where a rule knows nothing but ports. So a part is cut off from
all others when all packets from and to its ports are lost. If some of them are, it is a slow peer of all
others: TCP sends these packets again, the first time after 0.2 s (RFC 6298, with Linux's minimum).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sluice.runtime.settings import Settings

TABLE = "sluice_chaos"


#: How many of 100 packets a slow network loses.
SLOW_PERCENT = 25
ALL_PERCENT = 100


class RuleRefused(RuntimeError):
    """nft refused a rule."""


def why_not(settings: Settings) -> str:
    """Why no packets can be lost here; empty if they can. To be asked inside the instance's network."""
    if not settings.private:
        return "the instance has no network of its own, and no rule is made in the machine's"
    if shutil.which("nft") is None:
        return "there is no nft (Debian: apt install nftables)"
    if problem := _nft("list", "tables"):
        return f"nft may not be used: {problem}"
    return ""


@contextmanager
def lost(ports: Sequence[int], percent: int) -> Iterator[None]:
    """So many of 100 packets from and to these ports are lost while the block lasts. Raises RuleRefused."""
    try:
        if problem := _nft("-f", "-", text=rules(ports, percent)):
            raise RuleRefused(problem)
        yield
    finally:
        remove()


def remove() -> None:
    """Remove the rules, if there are any."""
    if TABLE in _listed():
        _nft("delete", "table", "inet", TABLE)


def rules(ports: Sequence[int], percent: int) -> str:
    """The table, as nft reads it."""
    those = ", ".join(map(str, ports))
    which = "" if percent == ALL_PERCENT else f"numgen random mod 100 < {percent} "
    return (
        f"table inet {TABLE} {{\n chain lost {{\n"
        "  type filter hook input priority 0; policy accept;\n"
        f"  tcp dport {{ {those} }} {which}drop\n  tcp sport {{ {those} }} {which}drop\n }}\n}}\n"
    )


def _listed() -> str:
    return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False).stdout


def _nft(*arguments: str, text: str = "") -> str:
    """What nft complains of; empty if it did what it was told."""
    done = subprocess.run(["nft", *arguments], input=text, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split()) or f"exit code {done.returncode}" if done.returncode else ""
