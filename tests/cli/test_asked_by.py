"""Who typed a command: by the kernel's word, not by a variable that anybody sets."""

from __future__ import annotations

import os
import pwd

import pytest

from sluice.cli.asked_by import me


def test_it_is_the_process_s_user_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "somebody")
    assert me() == f"host:{pwd.getpwuid(os.getuid()).pw_name}"


@pytest.mark.parametrize(("uid", "expected"), [(0, "host:ann"), (65534, "host:nobody")])
def test_sudo_s_word_counts_for_root_alone(monkeypatch: pytest.MonkeyPatch, uid: int, expected: str) -> None:
    monkeypatch.setenv("SUDO_USER", "ann")
    monkeypatch.setattr(os, "getuid", lambda: uid)
    assert me() == expected
