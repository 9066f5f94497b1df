"""Steps are named as they are, with their gaps."""

import pytest
from mindscope.cli.step_spans import merged, steps_in_words


def in_words(*steps: int) -> str:
    return steps_in_words(merged((step, step) for step in steps))


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([7, 7], "step 7"),
        ([3, 2, 4], "steps 2 to 4"),
        ([2, 8], "steps 2 and 8"),
        ([0, 1, 5, 9], "steps 0, 1, 5 and 9"),
        ([*range(4), *range(20, 26)], "steps 0 to 3 and 20 to 25"),
        (range(0, 901, 10), "every 10 steps from 0 to 900"),
        ([0, 10, 20, 25, *range(30, 40), 50, 60], "steps 0, 10, 20 and 4 more ranges up to step 60"),
    ],
)
def test_stretches_are_named_with_their_gaps(steps, words):
    assert in_words(*steps) == words


def test_stretches_that_meet_or_overlap_are_one():
    assert merged([(8, 9), (0, 3), (2, 5), (6, 6)]) == ((0, 6), (8, 9))
    assert merged([]) == ()
