"""The side on which rows of tokens are padded, in a training and in its evaluation."""

import numpy as np
import pytest
from mindscope.probe.checks.padding_sides import PaddingSides


def rows(side, count=16, length=10):
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 50, (count, length))
    for row, size in zip(tokens, rng.integers(1, length, count), strict=True):
        row[slice(None, size) if side == "before" else slice(-size, None)] = 0
        row[0 if side == "behind" else -1] = 7
    return tokens


@pytest.mark.parametrize(
    ("trained", "evaluated", "is_told"),
    [
        ("before", "behind", True),
        ("before", "before", False),
        ("behind", "behind", False),
        ("behind", "before", False),  # as where a language model is trained, and generates
    ],
)
def test_the_side_of_an_evaluation_is_that_of_the_training(trained, evaluated, is_told):
    sides = PaddingSides()
    for _ in range(4):
        sides.learn(rows(trained))
    result = sides.evaluated(rows(evaluated))
    assert (result is not None) == is_told
    if result is not None:
        assert (result.outcome, result.numbers["rows"]) == ("broken", 16.0)
        assert "64 padded rows of the training have their zeros before the tokens" in result.counterexample
    assert sides.evaluated(rows(evaluated)) is None  # told once


@pytest.mark.parametrize(
    "odd",
    [
        np.array([[0, 3, 0, 4, 5]] * 8),  # classes among which zero is one
        np.array([0, 1, 2]),
        np.zeros((4, 6), int),
        np.zeros((0, 6), int),
        np.array([[0, 0, 1]] * 8),
    ],
)
def test_zeros_that_are_no_padding_say_nothing(odd):
    sides = PaddingSides()
    for _ in range(4):
        sides.learn(odd)
    assert sides.evaluated(rows("behind")) is None
    sides = PaddingSides()
    for _ in range(4):
        sides.learn(rows("before"))
    assert sides.evaluated(odd) is None


def test_a_training_with_rows_of_both_sides_says_nothing():
    sides = PaddingSides()
    for side in ("before", "before", "before", "behind"):
        sides.learn(rows(side))
    assert sides.evaluated(rows("behind")) is None
