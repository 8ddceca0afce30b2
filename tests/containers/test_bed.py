"""The test bed's machines are machines to what uses them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.containers.bed import Bed, NotReached, bed

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def machines() -> Iterator[Bed]:
    with bed(3) as made:
        yield made


def test_each_has_java_and_a_name_that_the_others_know(machines: Bed) -> None:
    for machine in machines.machines:
        assert 'version "17' in machines.run(machine, "java -version")
        assert machines.run(machine, "hostname").strip() == machine.name
        for other in machines.machines:
            assert other.address in machines.run(machine, f"getent hosts {other.name}")


def test_nobody_else_gets_in(machines: Bed) -> None:
    first = machines.machines[0]
    stranger = Bed(machines.network, machines.known, machines.known, machines.machines)  # no key
    with pytest.raises(NotReached, match="Permission denied"):
        stranger.run(first, "true")


def test_a_machine_that_was_cut_off_comes_back_as_it_was(machines: Bed) -> None:
    first, second, _ = machines.machines
    machines.run(first, "nohup sleep 1000 > /dev/null 2>&1 < /dev/null & echo $! > pid")
    machines.cut(first)
    with pytest.raises(NotReached):
        machines.run(first, "true")
    reaches = "timeout 5 bash -c '< /dev/tcp/{}/22' && echo yes"
    assert machines.run(second, reaches.format(second.address)).strip() == "yes"
    assert "yes" not in machines.run(second, reaches.format(first.address))
    machines.join(first)
    assert "yes" in machines.run(second, reaches.format(first.address))
    assert machines.run(first, "kill -0 $(cat pid) && echo lives").strip() == "lives"
