"""Limits that a series is held against."""

import math
from dataclasses import replace

from mindscope.dashboard.pages.tensor.tensor_figures import levels_of
from mindscope.storage import Finding, Run

RUN = Run("r", "r", "finished", 0.0, 0.0)
FOUND = Finding(
    "exploding-gradient",
    "exploding_gradient",
    "error",
    5,
    5,
    "head",
    "gradient/l2_norm",
    {"limit": 10.0, "usual_norm": 0.5, "norm": 40.0, "usual_other": math.inf},
    "",
    "",
)


def test_limits_and_usual_values_of_findings_about_the_series_are_levels():
    assert [level.value for level in levels_of(RUN, "head", "gradient/l2_norm", [FOUND, FOUND])] == [10.0, 0.5]
    assert levels_of(RUN, "head", "gradient/mean", [FOUND]) == ()
    assert levels_of(RUN, "body", "gradient/l2_norm", [FOUND]) == ()


def test_bounds_of_watchpoints_on_the_series_are_levels():
    lines = [
        "gradient/l2_norm @ h* outside [1, 2]",
        "gradient/l2_norm @ body > 9",
        "change of gradient/l2_norm @ * > 3",
    ]
    watching = replace(RUN, config={"watchpoints": lines})
    assert [level.value for level in levels_of(watching, "head", "gradient/l2_norm", [])] == [1.0, 2.0]


def test_watchpoints_that_cannot_be_read_give_no_levels():
    assert levels_of(replace(RUN, config={"watchpoints": ["nonsense"]}), "head", "gradient/l2_norm", []) == ()
