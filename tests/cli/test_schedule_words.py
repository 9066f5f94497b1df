"""A schedule in words is a sentence that can be read aloud."""

import pytest
from mindscope.cli.step_spans import in_words, paced_in_words
from mindscope.probe import NEVER, Schedule


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (NEVER, "never"),
        (Schedule(), "every step"),
        (Schedule(around=50), "every step"),
        (Schedule(10), "every 10 steps"),
        (Schedule(10, windows=((1, 2), (4, 4), (7, 7))), "every 10 steps and at steps 1, 2, 4 and 7"),
        (Schedule(20, first=5), "every 20 steps and at the first 5"),
        (Schedule(0, first=1), "at the first step"),
        (Schedule(0, windows=((4, 4),)), "at step 4"),
        (Schedule(0, windows=((100, 110),)), "at steps 100 to 110"),
        (
            Schedule(3, first=100, windows=((5000, 5100), (7, 8)), start=2),
            "every 3 steps, at the first 100 and at steps 7, 8 and 5000 to 5100, from step 2 on",
        ),
        (
            Schedule(0, per_decade=20, start=1000, stop=90000),
            "at 20 steps a decade (1 to 10, 10 to 100 and so on), from step 1000 to 89999",
        ),
        (Schedule(stop=10, around=5), "every step, up to step 9; also at each of 5 steps after a finding"),
        (Schedule(0, around=5), "at each of 5 steps after a finding"),
    ],
    ids=str,
)
def test_a_schedule_in_words(schedule, words):
    assert in_words(schedule) == words


def test_what_tells_something_now_and_then_only_is_said_with_that():
    assert paced_in_words(Schedule(10), 10) == "every 100 steps"
    assert paced_in_words(Schedule(0, first=30), 10) == "at one in 10 of these: at the first 30"
    assert paced_in_words(NEVER, 10) == "never"
