"""Evaluations that can run and are hardly meant are warned of, and what is usual is left alone."""

import logging
import re

import pytest
from mindscope.armour import evaluate
from mindscope.armour.evaluation.plausibility import budget_warnings, clean_warnings

from tests.armour.networks import data, model, perceptron

BYTES = (0.0, 255.0)
UNIT = (0.0, 1.0)


@pytest.mark.parametrize(
    ("norm", "largest", "bounds", "elements", "words"),
    [
        (
            "linf",
            0.1,
            BYTES,
            3072,
            r"next to nothing within the bounds \[0, 255\].*8/255 of their width, here about 8$",
        ),
        ("linf", 8.0, UNIT, 3072, r"spans the bounds \[0, 1\].*here about 0.0314$"),
        ("l2", 0.02, BYTES, 3072, r"epsilon 0.02 \(l2\).*usual is here about 128$"),
        ("l2", 60.0, UNIT, 3072, "any input may become any other"),
        ("l1", 0.05, BYTES, 3072, "next to nothing"),
        ("l0", 8.0, UNIT, 4, "change all 4 numbers"),
        ("linf", 0.001, ([-2.0, -1.0], [2.0, 1.0]), 2, r"within the bounds \[-2, 2\]"),
    ],
    ids=["bytes", "unit", "l2 small", "l2 large", "l1", "l0", "bounds per element"],
)
def test_a_budget_on_another_scale_names_the_usual_one(norm, largest, bounds, elements, words):
    (found,) = budget_warnings(norm, largest, bounds, elements)
    assert found.startswith(f"epsilon {largest:g}")
    assert re.search(words, found), found


@pytest.mark.parametrize(
    ("norm", "largest", "bounds", "elements"),
    [
        ("linf", 8 / 255, UNIT, 3072),
        ("linf", 0.001, UNIT, 3072),
        ("linf", 8.0, BYTES, 3072),
        ("linf", 0.0, BYTES, 3072),
        ("linf", 0.1, (-2.1, 2.6), 3072),
        ("l2", 0.5, UNIT, 3072),
        ("l2", 3.0, UNIT, 150_528),
        ("l1", 12.0, UNIT, 3072),
        ("l0", 3.0, UNIT, 4),
    ],
)
def test_usual_budgets_are_left_alone(norm, largest, bounds, elements):
    assert not list(budget_warnings(norm, largest, bounds, elements))


def test_a_model_that_is_worse_than_a_guess_is_told():
    assert not list(clean_warnings(0.25, 4))
    (found,) = clean_warnings(0.2, 4)
    assert found.startswith(
        "the clean accuracy is 0.200, below the 0.250 of a guess among 4 classes; check that labels"
    )


def test_warnings_are_logged_before_the_attacks_and_kept_with_the_outcomes(caplog):
    network = perceptron()
    x, y = data(network, 12)

    def progress(share, label):
        assert len(caplog.messages) == 2

    with caplog.at_level(logging.WARNING):
        found = evaluate(model(network), x, (y + 1) % 4, 1.5, attacks=["fgsm"], progress=progress)
    assert list(found.warnings) == caplog.messages
    assert found.warnings[0].startswith("epsilon 1.5 (linf) spans the bounds")
    assert found.warnings[1].startswith("the clean accuracy is 0.000")
    assert all(o.details["warnings"] == list(found.warnings) for o in found.outcomes if o.attack == "worst-case")
