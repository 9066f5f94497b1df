"""Schedules asked together say what each says alone."""

import pytest
from mindscope.probe.configuration.cadence import NEVER, Schedule
from mindscope.probe.recording.due_collectors import Timetable

SCHEDULES = {
    "always": Schedule(),
    "always too": Schedule(),
    "tenth": Schedule(every=10),
    "window": Schedule(every=0, windows=((7, 9),)),
    "decades": Schedule(every=0, per_decade=5),
    "behind": Schedule(every=0, around=3),
    "never": NEVER,
}


@pytest.mark.parametrize("anomaly", [None, 4])
def test_a_timetable_agrees_with_each_schedule(anomaly):
    table = Timetable(SCHEDULES)
    for step in range(120):
        alone = {name for name, schedule in SCHEDULES.items() if schedule.is_due(step, anomaly)}
        assert table.due(step, anomaly) == alone


def test_the_same_answer_is_the_same_object():
    table = Timetable(SCHEDULES)
    assert table.due(21) is table.due(22)


def test_rest_is_a_stretch_without_any_due_step():
    table = Timetable({"tenth": Schedule(every=10), "always": Schedule()})
    assert table.rests(frozenset({"tenth"}), 11, 9)
    assert not table.rests(frozenset({"tenth"}), 11, 10)
    assert not table.rests(frozenset({"tenth", "always"}), 11, 1)


def test_the_next_due_step_is_that_of_the_schedule_which_is_due_first():
    table = Timetable({"tenth": Schedule(every=10), "window": Schedule(every=0, windows=((7, 9),)), "never": NEVER})
    assert [table.next_due(step) for step in (1, 8, 11)] == [7, 8, 20]
    assert Timetable({"never": NEVER}).next_due(0) is None
    assert not table.looks_around
    assert Timetable(SCHEDULES).looks_around
