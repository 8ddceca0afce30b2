import io

import pytest

from sluice.cli.output.phases import Phases


def test_each_phase_ends_with_its_seconds_and_its_last_words() -> None:
    out = io.StringIO()
    phases = Phases(out)
    with phases.phase("replay the log") as say:
        say("10 lines")
        say("20 lines")
    last = out.getvalue().splitlines()[-1]
    assert last.startswith("replay the log")
    assert last.endswith("20 lines")
    assert phases.seconds.keys() == {"replay the log"}


def test_a_phase_that_raises_is_shown_as_failed_and_still_timed() -> None:
    out = io.StringIO()
    phases = Phases(out)
    with pytest.raises(RuntimeError), phases.phase("start the stack"):
        raise RuntimeError("no Java")
    assert out.getvalue().splitlines()[-1].endswith("failed")
    assert "start the stack" in phases.seconds
