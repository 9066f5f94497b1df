"""Where the time of steps goes, stretch by stretch."""

import numpy as np
import pytest
from mindscope.dashboard.queries.reader import Reader
from mindscope.dashboard.queries.timing_queries import profile_of, step_timeline
from mindscope.storage import StepRecord, open_store

from .profiled import LONG_S, LONG_STEP, OTHER_S, PHASES, SPLIT_EVERY, STEPS, write_profiled


@pytest.fixture(scope="module")
def profiled():
    with open_store("memory:") as store:
        run = write_profiled(store)
        yield Reader(store), run


def test_the_parts_of_every_split_step_add_up_to_it(profiled):
    course = step_timeline(*profiled)
    assert course.steps.tolist() == list(range(0, STEPS, SPLIT_EVERY))
    assert list(course.parts) == [*PHASES, "other"]
    total = np.sum(list(course.parts.values()), axis=0)
    assert total == pytest.approx(np.full(len(course.steps), sum(PHASES.values()) + OTHER_S))
    assert course.parts["data"] == pytest.approx(np.full(len(course.steps), PHASES["data"]))
    assert set(course.inside) == {"monitor", "communication"}


def test_a_long_step_between_two_that_were_split_is_seen_in_its_stretch(profiled):
    course = step_timeline(*profiled)
    (at,) = np.flatnonzero(course.longest == LONG_S)
    assert course.steps[at] <= LONG_STEP < course.ends[at]


def test_of_a_thousand_stretches_a_few_hundred_are_drawn_and_no_long_step_is_lost():
    rng = np.random.default_rng(0)
    seconds = rng.uniform(0.1, 0.2, 3000)
    seconds[1777] = 9.0
    with open_store("memory:") as store:
        writer = store.begin_run("long")
        writer.write(
            [
                StepRecord(step, step, scalars={"step_seconds": s, "time/data_seconds": s / 2})
                for step, s in enumerate(seconds)
            ]
        )
        writer.close()
        course = step_timeline(Reader(store), store.find_run("long"))
    assert 100 < len(course.steps) <= 240
    for at, (first, last) in enumerate(zip(course.steps, course.ends, strict=True)):
        assert course.longest[at] == seconds[first:last].max()
        assert course.parts["data"][at] == pytest.approx(seconds[first:last].mean() / 2)
        assert course.parts["other"][at] == pytest.approx(seconds[first:last].mean() / 2)
    assert course.longest.max() == 9.0


def test_a_run_without_a_split_shows_its_steps_and_one_without_times_shows_nothing():
    with open_store("memory:") as store:
        writer = store.begin_run("plain")
        writer.write([StepRecord(step, step, scalars={"step_seconds": 0.5}) for step in range(4)])
        store.begin_run("empty")
        reader = Reader(store)
        course = step_timeline(reader, store.find_run("plain"))
        assert {name: part.tolist() for name, part in course.parts.items()} == {"step": [0.5] * 4}
        assert not len(step_timeline(reader, store.find_run("empty")).steps)


def test_a_stretch_of_steps_has_a_profile_of_its_own(profiled):
    reader, run = profiled
    assert profile_of(reader, run, (30, 35)).splits[0].slowest[0] == LONG_STEP
    assert profile_of(reader, run, (40, 50)).splits[0].steps == 11
    assert step_timeline(reader, run, span=(20, 40)).steps.tolist() == [20, 25, 30, 35, 40]
