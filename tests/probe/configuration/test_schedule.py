"""Schedules say when something is due."""

import pytest
from mindscope.probe import Schedule


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (Schedule(), [0, 1, 2, 3, 4, 5, 6, 7]),
        (Schedule(every=3), [0, 3, 6]),
        (Schedule(every=0), []),
        (Schedule(every=5, first=2), [0, 1, 5]),
        (Schedule(every=0, windows=((2, 3), (6, 6))), [2, 3, 6]),
        (Schedule(every=2, start=3), [3, 5, 7]),
        (Schedule(every=1, start=2, stop=4), [2, 3]),
        (Schedule(every=0, first=2, start=5), [5, 6]),
        (Schedule(every=0, per_decade=3, start=1), [1, 2, 3, 6]),
    ],
    ids=[
        "always",
        "every third",
        "never",
        "the first ones too",
        "windows",
        "from a step",
        "to a step",
        "first from a step",
        "logarithmic",
    ],
)
def test_due_steps(schedule, steps):
    assert [step for step in range(8) if schedule.is_due(step)] == steps
    assert schedule.is_ever_due == bool(steps)


@pytest.mark.parametrize("per_decade", [1, 3, 10, 25])
def test_a_logarithmic_schedule_is_due_so_often_in_every_decade(per_decade):
    due = [step for step in range(1, 100_001) if Schedule(every=0, per_decade=per_decade).is_due(step)]
    grid = sorted({round(10 ** (k / per_decade)) for k in range(5 * per_decade + 1)})
    assert due == grid
    assert sum(10_000 < step <= 100_000 for step in due) == per_decade


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(every=7, first=3, start=4, stop=40),
        Schedule(every=0, windows=((5, 8), (20, 20)), start=6),
        Schedule(every=0, per_decade=7, start=2),
        Schedule(every=50, per_decade=2, windows=((33, 35),)),
        Schedule(every=0),
        Schedule(every=3, stop=10),
    ],
    ids=str,
)
def test_the_next_due_step_is_the_first_that_is_due(schedule):
    due = [step for step in range(200) if schedule.is_due(step)]
    for step in range(100):
        assert schedule.next_due(step) == next((one for one in due if one >= step), None)
