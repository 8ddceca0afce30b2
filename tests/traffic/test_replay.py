from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app, main
from sluice.collection.pattern import Pattern
from sluice.runtime.settings import Settings
from sluice.traffic.replay import Replayed, ReplayError, Server, read_lines, replay

pytestmark = pytest.mark.usefixtures("inventory_text")


def line(day: int, text: str = "x") -> bytes:
    return f'10.0.0.1 - - [{day:02d}/May/2015:10:00:00 +0000] "GET /{text} HTTP/1.1" 200 1'.encode()


def log(tmp_path: Path, lines: list[bytes], end: bytes = b"\n") -> Path:
    path = tmp_path / "some.log"
    path.write_bytes(b"".join(each + end for each in lines))
    return path


def written(settings: Settings, host: str) -> dict[str, list[bytes]]:
    found = sorted((settings.home / "frontends" / host).iterdir())
    return {p.name.removeprefix("access.2015-05-"): p.read_bytes().split(b"\n")[:-1] for p in found}


def test_lines_go_to_the_file_of_their_day(settings: Settings, tmp_path: Path) -> None:
    lines = [line(17, "a"), line(17, "b"), line(18, "c")]
    done = replay(settings, log(tmp_path, lines), host="web1")
    assert done == Replayed(3, sum(len(each) + 1 for each in lines), 2)
    assert written(settings, "web1") == {"17.log": lines[:2], "18.log": lines[2:]}


def test_a_late_line_stays_in_the_current_file(settings: Settings, tmp_path: Path) -> None:
    lines = [line(17), line(18, "a"), line(17, "late"), line(18, "b")]
    replay(settings, log(tmp_path, lines), host="web1")
    assert written(settings, "web1") == {"17.log": lines[:1], "18.log": lines[1:]}


def test_a_line_without_a_date_stays_in_the_current_file(settings: Settings, tmp_path: Path) -> None:
    lines = [b"first", line(17), b"garbage [not/a/date] x", b"", b"\xff\xfe [", line(18)]
    replay(settings, log(tmp_path, lines), host="web1")
    assert written(settings, "web1") == {"17.log": lines[:5], "18.log": lines[5:]}


def test_a_log_without_any_date_goes_to_today(settings: Settings, tmp_path: Path) -> None:
    replay(settings, log(tmp_path, [b"a", b"b"]), host="web1")
    (path,) = (settings.home / "frontends" / "web1").iterdir()
    assert path.read_bytes() == b"a\nb\n"


def test_hosts_take_turns_and_keep_the_order(settings: Settings, tmp_path: Path) -> None:
    lines = [line(17, str(n)) for n in range(1_001)]
    replay(settings, log(tmp_path, lines))
    assert written(settings, "web1") == {"17.log": lines[0::2]}
    assert written(settings, "web2") == {"17.log": lines[1::2]}


def test_a_log_can_be_written_elsewhere(settings: Settings, tmp_path: Path) -> None:
    pattern = Pattern.parse(f"{tmp_path}/elsewhere/access.%Y-%m-%d.log", settings.home)
    assert replay(settings, log(tmp_path, [line(17)]), servers=[Server(pattern)]).lines == 1
    assert (tmp_path / "elsewhere" / "access.2015-05-17.log").read_bytes() == line(17) + b"\n"
    assert not (settings.home / "frontends").exists()


@pytest.mark.parametrize("packed", [False, True])
def test_line_ends_become_newlines(settings: Settings, tmp_path: Path, packed: bool) -> None:
    data = line(17, "a") + b"\r\n" + line(17, "b") + b"\n" + line(17, "no end")
    path = tmp_path / ("some.log.gz" if packed else "some.log")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert replay(settings, path, host="web1").lines == 3
    assert written(settings, "web1") == {"17.log": [line(17, "a"), line(17, "b"), line(17, "no end")]}


def test_a_second_replay_continues_the_files(settings: Settings, tmp_path: Path) -> None:
    path = log(tmp_path, [line(17)])
    for _ in range(2):
        replay(settings, path, host="web1")
    assert written(settings, "web1") == {"17.log": [line(17), line(17)]}


def test_a_torn_last_line_is_ended_first(settings: Settings, tmp_path: Path) -> None:
    target = settings.home / "frontends" / "web1" / "access.2015-05-17.log"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"torn")
    replay(settings, log(tmp_path, [line(17)]), host="web1")
    assert target.read_bytes() == b"torn\n" + line(17) + b"\n"


def test_a_line_longer_than_a_block(settings: Settings, tmp_path: Path) -> None:
    lines = [line(17), line(17, "y" * 9_000_000), line(17, "z")]
    assert list(read_lines(log(tmp_path, lines))) == lines
    replay(settings, log(tmp_path, lines), host="web1")
    assert written(settings, "web1") == {"17.log": lines}


def test_the_rate_is_kept(settings: Settings, tmp_path: Path) -> None:
    path = log(tmp_path, [line(17)] * 100)
    began = time.monotonic()
    replay(settings, path, rate=400)
    assert time.monotonic() - began > 0.2


def test_what_cannot_be_replayed(settings: Settings, tmp_path: Path) -> None:
    false_gz = tmp_path / "x.gz"
    false_gz.write_bytes(b"plain")
    damaged = tmp_path / "y.gz"
    damaged.write_bytes(gzip.compress(line(17) * 1000)[:-20])
    good = log(tmp_path, [line(17)])
    for call, message in [
        (lambda: replay(settings, tmp_path / "none"), "no such file"),
        (lambda: replay(settings, tmp_path), "is a folder: name one log in it"),
        (lambda: replay(settings, false_gz), "not a gzip file"),
        (lambda: replay(settings, damaged), "damaged"),
        (lambda: replay(settings, good, host="web9"), "'web9'.*known are: web1, web2"),
        (lambda: replay(settings, good, rate=0), "rate = 0"),
    ]:
        with pytest.raises(ReplayError, match=message):
            call()
    assert not (settings.home / "frontends").exists() or not list(
        settings.home.glob("frontends/*/access.20*")
    )


def test_the_command_line(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sluice.runtime.settings import get_settings

    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    monkeypatch.setenv("SLUICE_HOME", str(settings.home))
    get_settings.cache_clear()
    monkeypatch.setattr("sys.argv", ["sluice", "replay", str(tmp_path / "none.log")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "none.log: no such file" in capsys.readouterr().err

    path = log(tmp_path, [line(17), line(18)])
    result = CliRunner().invoke(app, ["replay", str(path), "--host", "web2"])
    assert result.exit_code == 0
    assert "replayed 2 lines" in result.output
    path.write_bytes(b"")
    empty = CliRunner().invoke(app, ["replay", str(path)])
    assert (empty.exit_code, f"{path} has no lines: nothing was written\n" in empty.output) == (0, True)
    get_settings.cache_clear()
