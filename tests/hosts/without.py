"""The project as it is where the package of several hosts is not installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sluice.runtime.settings import ROOT

CODE = ("dags", "include", "jobs", "plugins")
_OWN = ("__editable__", "sluice-")


def make(root: Path) -> Path:
    """Make it in a new folder; returns its Python.

    The folder has a copy of the project's code, and an environment of its own with the packages and jars of
    this one, but without `sluice_hosts` and what that joins to the core.
    """
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "sluice_hosts")
    for name in CODE:
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    (root / "var").mkdir()
    (root / "var" / "lib").symlink_to(ROOT / "var" / "lib")
    return _environment(Path(sys.prefix), root / ".venv", root / "include")


def _environment(given: Path, made: Path, include: Path) -> Path:
    packages = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    (made / packages).mkdir(parents=True)
    shutil.copy(given / "pyvenv.cfg", made)
    for each in (given / packages).iterdir():
        if not each.name.startswith(_OWN):
            (made / packages / each.name).symlink_to(each)
    (made / packages / "sluice.pth").write_text(f"{include}\n")
    (own,) = (given / packages).glob("sluice-*.dist-info")
    joins = "entry_points.txt"
    shutil.copytree(own, made / packages / own.name, ignore=shutil.ignore_patterns(joins, "RECORD"))
    script = "[console_scripts]\nsluice = sluice.cli.main:main\n"
    (made / packages / own.name / joins).write_text(script)
    (made / "bin").mkdir()
    for each in (given / "bin").iterdir():
        if each.is_symlink():
            (made / "bin" / each.name).symlink_to(each.readlink())
        elif each.is_file():
            text = each.read_bytes().replace(str(given).encode(), str(made).encode())
            (made / "bin" / each.name).write_bytes(text)
            shutil.copymode(each, made / "bin" / each.name)
    return made / "bin" / "python"
