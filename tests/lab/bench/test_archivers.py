"""The bench of several archivers: what counts as lost, as doubled, and as keeping up."""

from __future__ import annotations

from sluice_lab.bench.archivers import Look, Phase, bars, compared, curve

A, B, C = (7, 0, 0, b"a"), (7, 1, 2, b"b"), (9, 0, 4, b"c")


def test_a_line_that_is_missing_or_changed_is_lost_and_one_that_is_there_twice_is_doubled() -> None:
    kafka = {0: [A, B], 1: [C]}
    assert compared(kafka, {0: [A, B], 1: [C]}) == (0, 0)
    assert compared(kafka, {0: [A], 1: [C]}) == (1, 0)
    assert compared(kafka, {0: [A, (7, 1, 2, b"x")], 1: [C]}) == (1, 0)
    assert compared(kafka, {0: [A, B, B], 1: [C, C]}) == (0, 2)


def test_a_loss_a_double_or_a_phase_that_falls_behind_fails_a_bar() -> None:
    phases = [Phase("one", 1, 30.0, 4.0, 4.0), Phase("two", 2, 30.0, 4.0, 3.9)]
    assert all(bar.holds for bar in bars(0, 0, phases))
    assert [bar.holds for bar in bars(1, 0, phases)] == [False, True, True, True]
    assert [bar.holds for bar in bars(0, 1, phases)] == [True, False, True, True]
    behind = [phases[0], Phase("two", 2, 30.0, 4.0, 3.0)]
    assert [bar.holds for bar in bars(0, 0, behind)] == [True, True, True, False]


def test_the_plot_has_what_came_and_what_was_archived() -> None:
    drawn = curve([Look(1.0, 4.0, 3.0), Look(2.0, 8.0, 8.0)])
    assert drawn.lines == {"came": [[1.0, 2.0], [4.0, 8.0]], "archived": [[1.0, 2.0], [3.0, 8.0]]}
