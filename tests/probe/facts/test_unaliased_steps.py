"""One step of every period is due, at a drawn place, and the steps that are named stay."""

from mindscope.probe.configuration.cadence import Schedule
from mindscope.probe.facts.unaliased_steps import unaliased


def due(schedule, base=1, steps=20_000):
    return [step for step in range(steps) if unaliased(schedule, base)(step)]


def test_every_period_has_one_step_and_no_phase_is_left_out():
    steps = due(Schedule(10))
    assert [step // 10 for step in steps] == list(range(2000))
    assert steps[0] == 0
    for period in (2, 3, 4, 5, 7, 8, 10):
        counts = [sum(step % period == phase for step in steps) for phase in range(period)]
        assert min(counts) > 0.7 * len(steps) / period


def test_named_steps_stay_and_the_ends_hold():
    steps = due(Schedule(10, windows=((1, 2),), start=5, stop=40), steps=100)
    assert steps[0] == 5
    assert all(5 <= step < 40 for step in steps)
    assert {1, 2} <= set(due(Schedule(10, windows=((1, 2),)), steps=30))


def test_only_recorded_steps_are_drawn():
    assert all(step % 4 == 0 for step in due(Schedule(40), base=4, steps=2000))
    assert due(Schedule(5), base=5, steps=50) == list(range(0, 50, 5))
    assert due(Schedule(1), steps=10) == list(range(10))
