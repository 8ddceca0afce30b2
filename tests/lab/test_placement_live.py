"""Units that run: lines are written and found again, moves are watched, and the page says what was found.

No daemon runs here. `tests/e2e/test_hosts.py` moves collectors among emulated hosts while lines come.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from sluice.collection.inventory import Inventory
from sluice.placement.measures import load_spread
from sluice.placement.migration import MENDED, migrate
from sluice.placement.plan import plan
from sluice.placement.usage import slots_used
from sluice.transmission.identity import records
from sluice.transmission.mac import mac
from sluice_hosts.emulated import fleet
from sluice_lab.commands.grouping import app
from sluice_lab.placement import bars as all_bars
from sluice_lab.placement import page
from sluice_lab.placement.computed import PLACERS
from sluice_lab.placement.live import scenarios
from sluice_lab.placement.live.arrivals import Account, Arrived, _Counter
from sluice_lab.placement.live.bars import bars
from sluice_lab.placement.live.bed import WEB, inventory
from sluice_lab.placement.live.experiments import FILES, LivePlan, LiveRuns, load, missing
from sluice_lab.placement.live.measures import moves, rows, samples
from sluice_lab.placement.live.run import LiveRunLog, Moved
from sluice_lab.placement.live.scenarios import LINE_BYTES, SCENARIOS, front_end
from sluice_lab.placement.live.watching import MoveObserver, Taken
from sluice_lab.placement.live.writing import LineWriter
from sluice_lab.runs import RunKey
from sluice_lab.waiting import until
from tests.messages import Message
from tests.processes import command_line

KEY = b"key"
DAY = "2016-01-01"
BEGAN = 1_000.0  # of a made-up run, in seconds since the epoch


def message(
    first: int, lines: int, at: int, *, host: str = "f1-1", day: str = DAY, key: bytes = KEY
) -> Message:
    """A block of lines as an edge makes it, from this line of its file on."""
    body = b"\n".join([b"x" * (LINE_BYTES - 1)] * lines)
    name, place = f"/log/{host}.{day}.log".encode(), str(first * LINE_BYTES).encode()
    proof = mac(key, host.encode(), name, place, body)
    headers = [("host", host.encode()), ("src_file", name), ("src_offset", place), ("mac", proof)]
    return Message(0, body, headers, at)


def counted(messages: Sequence[Message], lines: int = 6) -> Account:
    files = {"f1-1": Arrived(np.full(lines, 1 << 60, np.int64), np.zeros(lines, np.int64))}
    counter = _Counter(files, DAY)
    for batch in records(0, messages, KEY):
        counter.add(batch)
    return Account(files, counter.strange)


def test_each_line_is_found_by_its_identity_whatever_blocks_it_comes_in() -> None:
    found = counted([message(0, 4, 30), message(2, 2, 20), message(4, 1, 40)])
    assert found.files["f1-1"].first[:5].tolist() == [30, 30, 20, 20, 40]
    assert found.files["f1-1"].copies.tolist() == [1, 1, 2, 2, 1, 0]
    assert (found.lost, found.twice, found.strange) == (1, 2, 0)


@pytest.mark.parametrize(
    "other",
    [
        message(0, 2, 1, key=b"another"),
        message(0, 2, 1, day="2016-01-02"),
        message(0, 2, 1, host="f9-9"),
        message(6, 2, 1),
    ],
    ids=["forged", "of another day", "of nobody", "beyond the end"],
)
def test_a_line_that_nobody_wrote_is_no_line_of_the_run(other: Message) -> None:
    found = counted([message(0, 6, 1), other])
    assert (found.lost, found.twice) == (0, 0)
    assert found.strange in (1, 2)  # without its identity a block is one line


def test_front_ends_write_lines_of_one_length_and_know_when(tmp_path: Path) -> None:
    files = {"f1-1": tmp_path / "one", "f1-2": tmp_path / "other"}
    before = time.time_ns() // 1_000_000
    with LineWriter(files, {"f1-1": 500.0, "f1-2": 50.0}) as writer:
        until(lambda: all(path.stat().st_size for path in files.values()))
    written = writer.written()
    for name, path in files.items():
        text = path.read_bytes()
        assert len(text) == len(written[name]) * LINE_BYTES
        lines = text.splitlines()
        assert [int(line.split()[0]) for line in lines] == written[name].tolist()
        assert len(set(lines)) == len(lines)
    times = written["f1-1"]
    assert before <= times[0] <= times[-1] <= time.time_ns() // 1_000_000
    assert len(times) > len(written["f1-2"])


class Counters(ThreadingHTTPServer):
    """The counters of an agent that took so many blocks."""

    blocks = 0


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Counters)
        self.send_response(200)
        self.end_headers()
        counters = {"CHANNEL.buffer": {"EventPutSuccessCount": str(self.server.blocks)}}
        self.wfile.write(json.dumps(counters).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def agent(address: str, port: int) -> Iterator[Counters]:
    with Counters((address, port), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_a_pause_lasts_from_the_last_block_there_to_the_first_one_here() -> None:
    with ExitStack() as stack:
        old = stack.enter_context(agent("127.0.1.1", 0))
        port, old.blocks = old.server_address[1], 1
        watch = MoveObserver(port, "127.0.1.1", "127.0.1.2")
        old.blocks = 2
        until(lambda: watch._taken.last is not None)
        ended = time.time()
        with agent("127.0.1.2", port) as new:
            assert watch._taken.first is None, "an agent that took nothing counts as one that did"
            new.blocks = 1
            taken = watch.done()
    assert taken.last is not None
    assert taken.first is not None
    assert taken.last <= ended <= taken.first <= time.time()
    assert taken.pause == taken.first - taken.last


def test_a_units_front_end_sends_to_it_first_and_then_to_the_application(tmp_path: Path) -> None:
    found = Inventory.model_validate(inventory(fleet.build(tmp_path, dict.fromkeys(WEB, ("edge",)))))
    assert [collector.name for collector in found.collectors] == scenarios.units()
    for unit, each in zip(scenarios.units(), found.front_ends, strict=True):
        assert (each.host, each.collectors[0]) == (front_end(unit), unit)
        own = {
            name for name in scenarios.units() if scenarios.application(name) == scenarios.application(unit)
        }
        assert set(each.collectors) == own


@pytest.mark.parametrize(("name", "start", "count"), [("low", (4, 3, 3), 4), ("default", (5, 4, 1), 5)])
def test_our_plan_evens_the_papers_hosts_out(name: str, start: tuple[int, ...], count: int) -> None:
    scenario = SCENARIOS[name]
    first = scenarios.cluster(scenarios.hosts()[: scenario.first], {})
    running = PLACERS[scenario.start](first)
    assert tuple(slots_used(first, running).values()) == start
    joined = scenarios.cluster(scenarios.hosts(), running)
    found = plan(joined)
    assert len(found.moves) == count
    assert set(slots_used(joined, found.result(joined)).values()) == {2}


def test_slot_counting_moves_nothing_where_ours_goes_by_load() -> None:
    running = PLACERS["paper"](scenarios.cluster(scenarios.hosts(), {}))
    loads = dict.fromkeys(scenarios.units(), 1.0) | {scenarios.BUSY_UNIT: 3.0}
    cluster = scenarios.cluster(scenarios.hosts(), running, loads)
    assert not migrate(scenarios.cluster(scenarios.hosts(), running), MENDED).moves
    found = plan(cluster).result(cluster)
    assert load_spread(cluster, found) < load_spread(cluster, running) / 2


def log(name: str = "low", lost: int = 0, twice: int = 3) -> LiveRunLog:
    """A run of 30 s: hosts join after 10 s, t1-1 moves for 8 s, and stands still for 3."""
    made = LiveRunLog(SCENARIOS[name], BEGAN, BEGAN + 10, BEGAN + 20, BEGAN + 30, [(4, 3, 3, 0, 0), (2,) * 5])
    loads = dict.fromkeys(scenarios.units(), 0.1) | {scenarios.BUSY_UNIT: 0.3}
    made.unevenness, made.loads = [0.6, 0.2], [loads] * 2
    taken = Taken(BEGAN + 12, BEGAN + 15)
    made.moves = [Moved("t1-1", "h1", "h4", BEGAN + 11, BEGAN + 19, taken)] * 4
    written = 1_000 * int(BEGAN) + 100 * np.arange(300, dtype=np.int64)
    late = np.where((written >= 1_012_000) & (written < 1_014_000), 2_000, 50)
    copies = np.ones(300, np.int64)
    copies[:twice] = 2
    copies[300 - lost :] = 0
    first = np.where(copies, written + late, np.iinfo(np.int64).max)
    made.written, made.account = {"f1-1": written}, Account({"f1-1": Arrived(first, copies)})
    return made


def test_rows_have_throughput_and_latency_of_each_phase() -> None:
    before, during, after = rows(log(), 0)
    assert [row["step"] for row in (before, during, after)] == ["before", "during", "after"]
    assert (before["slots"], after["slots"]) == ("4/3/3/0/0", "2/2/2/2/2")
    assert (before["written"], before["p50"], before["worst"]) == (10.0, 50.0, 50.0)
    assert before["rate"] == pytest.approx(10.0, abs=0.1)
    assert (during["p50"], during["worst"]) == (50.0, 2_000.0)
    assert (after["lines"], after["lost"], after["twice"], after["settled"]) == (300, 0, 3, 1)
    (move, *_) = moves(log(), 0)
    assert (move["at"], move["seconds"], move["out_at"], move["pause"]) == (1.0, 8.0, 2.0, 3.0)
    assert move["stood"] == pytest.approx(2.05, abs=0.1)
    seconds = {row["at"]: row for row in samples(log(), 0)}
    assert list(seconds) == list(range(-10, 20))
    assert (seconds[0]["p99"], seconds[2]["p50"], seconds[3]["rate"]) == (50.0, 2_000.0, 0)


def test_a_run_that_lost_a_line_or_whose_move_was_not_seen_is_measured_again(tmp_path: Path) -> None:
    kept, order = LiveRuns(tmp_path), LivePlan(1)
    lost, unseen = log(lost=1), log("default")
    unseen.moves = [Moved("t1-1", "h1", "h4", BEGAN + 11, BEGAN + 19, Taken(BEGAN + 12))]
    kept.add(lost, RunKey("low", "paper", 0))
    kept.add(unseen, RunKey("default", "storm-0.8", 0))
    kept.add(log("uneven"), RunKey("uneven", "paper", 0))
    assert [key.scenario for key in missing(order, LiveRuns(tmp_path))] == ["low", "default"]
    kept.add(log(), RunKey("low", "paper", 0))
    assert [key.scenario for key in missing(order, LiveRuns(tmp_path))] == ["default"]


def test_scenarios_take_turns_and_each_round_begins_with_another() -> None:
    names = [key.scenario for key in LivePlan(3).order()]
    assert sorted(names) == sorted([*SCENARIOS] * 3)
    assert [names[place] for place in (0, 3, 6)] == list(SCENARIOS)


@pytest.fixture
def measured(tmp_path: Path) -> dict[str, Any]:
    kept = LiveRuns(tmp_path)
    for name, each in SCENARIOS.items():
        made = log(name, twice=0)
        if name == "default":
            made.slots[0] = (5, 4, 1, 0, 0)
            made.moves = [*made.moves, made.moves[0]]
        kept.add(made, RunKey(name, each.start, 0))
    return dict(load(tmp_path))


def test_bars_hold_what_was_found_against_what_must_be(measured: dict[str, Any]) -> None:
    assert all(bar.holds for bar in bars(measured)), list(bars(measured))
    assert len(list(bars(measured))) == 5
    breaks = {
        ("live", "slots"): "5/5/0/0/0",
        ("live", "lost"): 1,
        ("live", "strange"): 1,
        ("live", "twice"): 1,
        ("live_moves", "pause"): 10.1,
        ("live", "uneven"): 0.6,
        ("live", "by_slots"): 1,
    }
    for (file, column), value in breaks.items():
        broken = {**measured, file: [row | {column: value} for row in measured[file]]}
        assert not all(bar.holds for bar in bars(broken)), column
    without = {name: [] for name in FILES}
    assert [bar.figure for bar in bars(without)] == ["not measured"] * 3


def test_the_page_has_a_section_only_of_what_was_measured(measured: dict[str, Any], tmp_path: Path) -> None:
    computed = {name: rows for name, rows in page.load().items() if name not in FILES}
    whole = page.render({**computed, **measured})
    assert "## Units that run" in whole
    assert "4/3/3/0/0" in whole
    assert "placement-live-latency.svg" in whole
    assert "`sluice_hosts.units.watch`" in whole
    part = {name: [row for row in rows if row["scenario"] == "low"] for name, rows in measured.items()}
    assert "### By load" not in page.render({**computed, **part})
    without = page.render({**computed, **{name: [] for name in FILES}})
    assert "## Units that run" not in without
    found = {bar.name: bar.holds for bar in all_bars.bars({**computed, **{name: [] for name in FILES}})}
    assert not found["live, low: it is measured"]


#: A laboratory that waits; its parent is the process that began it.
WAITING = "import time; from sluice_lab.placement.live import apart; apart.enter_network(); time.sleep(600)"


@pytest.mark.slow
def test_a_laboratory_is_apart_and_ends_with_its_command() -> None:
    """timeit stands for the laboratory's module: it runs a statement."""
    command = (
        f"from sluice_lab.placement.live import apart; apart.call('timeit', ['-n1', '-r1', {WAITING!r}])"
    )
    with subprocess.Popen([sys.executable, "-c", command]) as begun:
        beside = Path("/proc/self/ns/net").stat().st_ino

        def inside() -> list[psutil.Process]:
            found = []
            for each in psutil.Process(begun.pid).children(recursive=True):
                with suppress(OSError):  # it has ended
                    apart = Path(f"/proc/{each.pid}/ns/net").stat().st_ino != beside
                    if apart and "timeit" in command_line(each):
                        found.append(each)
            return found

        until(lambda: len(inside()) == 1)
        (laboratory,) = inside()
        begun.kill()
    until(lambda: not laboratory.is_running() or laboratory.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize(
    "arguments", [["--quick", "--fresh"], ["--quick", "--page"], ["--page", "--fresh"], ["--live-runs", "-1"]]
)
def test_a_command_that_makes_no_sense_is_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["placement", *arguments]).exit_code == 2
