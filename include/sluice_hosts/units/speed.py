"""How fast one core of a host is: the CPU time in which it makes an MD5 sum of fixed bytes.

MD5 is one chain of additions and rotations, for which no processor has an instruction of its own. So it says
how fast a core is, and not which extensions it has, as SHA-256 or AES would. It is CPU time, not time on the
clock, so that a busy host is not a slow one. It is no benchmark of what units do: where it misleads, the
setting `placement.speeds` has the last word.
"""

from __future__ import annotations

import re

from sluice_hosts.units.processes import Run

MIB = 256
#: MiB a second of a core whose speed is 1.
REFERENCE = 500.0
SECONDS = 60.0
_SCRIPT = f"export LC_ALL=C; head -c {MIB << 20} /dev/zero | md5sum >/dev/null || exit 1; times"
_TIMES = re.compile(r"^(\d{1,4})m([\d.]{1,12})s (\d{1,4})m([\d.]{1,12})s$", re.MULTILINE)
_LEAST = 0.01  # seconds; what is faster was not measured


def measure(run: Run) -> float | None:
    """The speed of a core of the host, in reference cores; None if it could not be measured."""
    found = _TIMES.findall(run("sh", "-c", _SCRIPT, seconds=SECONDS))
    if len(found) != 2:  # noqa: PLR2004 - the shell's own times, and its children's
        return None
    minutes, seconds, system_minutes, system_seconds = found[1]
    try:
        spent = 60 * (int(minutes) + int(system_minutes)) + float(seconds) + float(system_seconds)
    except ValueError:
        return None
    return MIB / spent / REFERENCE if spent >= _LEAST else None
