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
    ],
    ids=["always", "every third", "never", "the first ones too", "windows"],
)
def test_due_steps(schedule, steps):
    assert [step for step in range(8) if schedule.is_due(step)] == steps
    assert schedule.is_ever_due == bool(steps)
