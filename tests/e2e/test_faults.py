"""Each line counts once, whatever dies: tests write lines, kill, and compare a whole day."""

from __future__ import annotations

import datetime as dt
import json
import signal
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa
from kafka import KafkaProducer

from sluice.quality.hops import Hops
from sluice.runtime import detached
from sluice.stack.environment import environment
from sluice.storage.hive import Hive
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.transmission.line_schema import HOST, MAC, SRC_FILE, SRC_OFFSET
from sluice.transmission.mac import identity_key
from sluice_lab.access_lines import access_line, access_lines
from sluice_lab.bench.headers import to_headers
from sluice_lab.waiting import until
from tests.e2e.running import COMMAND_SECONDS, DAYS, TOPIC, Platform, expected
from tests.identities import record_key

pytestmark = pytest.mark.e2e

FENCED = 3


def day(number: int) -> dt.date:
    """The day of the n-th test; the tests share three because nights for all of them follow."""
    return DAYS[number % len(DAYS)]


def assert_all_is_archived(hops: Hops) -> None:
    """Each line of the archive is accounted for, whatever was erased before."""
    assert hops.archived == hops.online + hops.doubled + hops.dead_lettered + hops.redacted


def test_good_lines_malformed_lines_and_late_lines(platform: Platform) -> None:
    before, today = DAYS[0], DAYS[2]
    dead = platform.drain().dead_lettered
    platform.write(today, access_lines(today, 400))
    platform.append(today, b"this is no log line\n\n\xff\xfe not even text\n")
    late = access_lines(before, 1)
    platform.note(before, late)
    platform.append(today, (late[0] + "\n").encode())  # two days late, in today's file
    platform.write(today, access_lines(today, 400, seed=1), host="web2")
    when = dt.datetime.combine(today, dt.time(12), dt.UTC)
    for path in ("/a_b", "/a%5Fb", "/<script>", "/';+DROP+TABLE+tasks+--", "/\u00fc_\u2603"):
        odd = access_line(when, client="10.9.9.9", path=path, status="200", size="7")
        platform.write(today, [odd], host="web2")
    hops = platform.drain()
    assert hops.dead_lettered == dead + 3
    platform.assert_online_is_exact(today)
    platform.assert_online_is_exact(before)


def test_lines_that_flume_sends_twice_count_once(platform: Platform) -> None:
    today = day(1)
    platform.write(today, access_lines(today, 500), host="web2")
    before = platform.drain()
    edge = platform.kill_job("flume-web2")
    position = platform.settings.home / "flume" / "web2" / "position.json"
    entries = json.loads(position.read_text())
    for entry in entries:
        entry["pos"] = 0
    position.write_text(json.dumps(entries))
    platform.wait_restarted(edge)
    until(lambda: platform.drain().doubled >= before.doubled + 500, what="lines come twice")
    platform.assert_online_is_exact(today)


def test_kill_of_a_collector(platform: Platform) -> None:
    """tests/collection/test_agents.py kills edges."""
    today = day(2)
    lines = access_lines(today, 3000)
    platform.write(today, lines[:1500])
    killed = platform.kill_job("flume-collector1")
    platform.write(today, lines[1500:])
    platform.wait_restarted(killed)
    platform.drain()
    platform.assert_online_is_exact(today)


@pytest.mark.parametrize("point", ["after_blocks", "after_commit", "projected"])
def test_the_speed_layer_dies_inside_a_batch_or_a_projection(platform: Platform, point: str) -> None:
    today = day({"after_blocks": 4, "after_commit": 5, "projected": 6}[point])
    lines = access_lines(today, 800)
    platform.write(today, lines[:400])
    platform.drain()
    running = platform.job("speed_layer")
    armed = platform.arm(point)
    platform.write(today, lines[400:])
    platform.wait_fired(armed)
    platform.wait_restarted(running)
    platform.drain()
    platform.assert_online_is_exact(today)


@pytest.mark.parametrize("point", ["state_put", "state_written"])
def test_a_process_dies_while_it_writes_state(platform: Platform, point: str) -> None:
    """In a small batch it is the driver, else a worker, whose task Spark repeats."""
    today = day(3 if point == "state_put" else 4)
    platform.write(today, access_lines(today, 300))
    platform.drain()
    armed = platform.arm(point)
    platform.write(today, access_lines(today, 400, seed=1), host="web2")
    platform.wait_fired(armed)
    platform.drain()
    platform.assert_online_is_exact(today)


def test_a_second_speed_layer_is_fenced(platform: Platform) -> None:
    today = day(7)
    platform.write(today, access_lines(today, 300))
    root = platform.settings.root
    second = subprocess.run(
        [sys.executable, str(root / "jobs" / "speed_layer.py"), "--topic", TOPIC],
        env=environment(platform.settings), capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert second.returncode == FENCED, second.stderr[-2000:]
    assert "another" in second.stderr
    assert detached.alive(platform.job("speed_layer"))
    platform.drain()
    platform.assert_online_is_exact(today)


@pytest.mark.parametrize("point", ["archive_before_rename", "archive_after_rename"])
def test_the_archiver_dies_around_its_claim(platform: Platform, point: str) -> None:
    today = day(8 if point == "archive_before_rename" else 9)
    running = platform.job("archiver")
    armed = platform.arm(point)
    platform.write(today, access_lines(today, 500))
    platform.wait_fired(armed)
    platform.wait_restarted(running)
    hops = platform.drain()
    assert_all_is_archived(hops)


def test_the_archive_group_is_rebalanced_while_it_writes(platform: Platform) -> None:
    today = day(10)
    lines = access_lines(today, 2000)
    platform.write(today, lines[:1000])
    root = platform.settings.root
    second = subprocess.Popen(
        [sys.executable, str(root / "jobs" / "archiver.py"), "--topic", TOPIC],
        env=environment(platform.settings) | {"SLUICE_ARCHIVE__MAX_AGE_SECONDS": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        time.sleep(8)
        platform.write(today, lines[1000:])
        time.sleep(4)
    finally:
        second.send_signal(signal.SIGKILL)  # its partitions go back although it did not leave the group
        second.wait()
    hops = platform.drain()
    assert_all_is_archived(hops)


@pytest.mark.parametrize("daemon", ["hbase", "datanode", "postgres"])
def test_kill_of_a_daemon_underneath(platform: Platform, daemon: str) -> None:
    today = day({"hbase": 11, "datanode": 12, "postgres": 13}[daemon])
    lines = access_lines(today, 1500)
    platform.write(today, lines[:500])
    platform.kill_daemon(daemon)
    platform.write(today, lines[500:1000])
    time.sleep(3)
    platform.write(today, lines[1000:])
    hops = platform.drain()
    assert_all_is_archived(hops)
    platform.assert_online_is_exact(today)


def test_a_forged_record_hides_no_line_and_is_a_dead_letter_in_both_layers(platform: Platform) -> None:
    """It claims the identities of lines that are not sent yet; one of them is a record that it has seen."""
    today = DAYS[-1] + dt.timedelta(days=10)
    lines = access_lines(today, 50)
    platform.write(today, lines[:20])
    before = platform.drain()
    name = f"frontends/web1/access.{today}.log"
    offset = len("".join(line + "\n" for line in lines[:20]))
    seen = to_headers("web1", name, 0, lines[0].encode(), identity_key(platform.settings))
    producer = KafkaProducer(bootstrap_servers=platform.settings.kafka.bootstrap, acks="all")
    for line in lines[20:]:
        text = line.encode()
        for proof in ([], seen[-1:], [(MAC, b"x" * 24)]):
            identity = [(HOST, b"web1"), (SRC_FILE, name.encode()), (SRC_OFFSET, b"%d" % offset)]
            producer.send(TOPIC, text, key=record_key(text), headers=[*identity, *proof])
        offset += len(text) + 1
    producer.send(TOPIC, lines[0].encode(), key=record_key(lines[0].encode()), headers=seen)  # a double
    producer.flush()
    until(lambda: platform.drain().of_no_file >= before.of_no_file + 90, what="lines are forged")
    platform.write(today, lines[20:])
    hops = platform.drain()
    assert (hops.dead_lettered, hops.doubled) == (before.dead_lettered + 90, before.doubled + 1)
    platform.assert_online_is_exact(today)
    letters = schema.dead_letters.c
    with engine(platform.settings).connect() as connection:
        forged = connection.execute(sa.select(letters.host).where(letters.reason == "forged")).scalars()
        assert list(forged) == ["kafka"] * 90
    compute(platform, today)
    with Hive(platform.settings) as hive:
        assert hive.query("SELECT count(*) FROM raw WHERE topic = 'logs' AND forged").scalar() == 90


def compute(platform: Platform, today: dt.date) -> None:
    """Compute the day as a night does; the offline results are then what plain Python counts."""
    night = [sys.executable, str(platform.settings.root / "jobs" / "nightly.py"), "--topic", TOPIC]
    subprocess.run(
        [*night, "--day", today.isoformat(), "--run-id", "again"],
        env=environment(platform.settings), check=True, timeout=COMMAND_SECONDS,
    )  # fmt: skip
    for task, wanted in expected(platform.written[today]).items():
        assert platform.counted(task, today, "offline").values == wanted, task


def test_a_name_that_is_used_again_counts_fully_and_equally_in_both_layers(platform: Platform) -> None:
    """The last of its module: `drain` cannot compare lines of files with records once contents are gone."""
    today = DAYS[-1] + dt.timedelta(days=20)
    first, second, third = (access_lines(today, number, seed=number) for number in (300, 200, 400))
    platform.write(today, first)
    platform.drain()
    log = platform.append(today, b"")
    log.write_bytes(b"")  # as copytruncate does
    platform.write(today, second)
    platform.drain()
    log.unlink()
    platform.write(today, third)
    hops = platform.drain()
    assert [file.lines for file in hops.files if file.src_file.endswith(f"{today}.log#2")] == [400]
    platform.assert_online_is_exact(today)
    compute(platform, today)
