"""What is advised where the learning rate is far too high."""

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain


@pytest.mark.parametrize(("onset", "divisor"), [(5.2, 1000), (0.8, 100)])
def test_the_factor_comes_from_the_first_large_step_not_from_the_weights_it_has_thrown_away(onset, divisor):
    recording = Recording(
        {
            "scalar/loss": (1.1, 232.0, 9e3, 9e5, 9e7),
            "scalar/learning_rate": 100.0,
            "one.weight update/ratio_to_weight": (onset, 161.0, 8e3, 9e5, 2e9),
        },
        chain("one:Dense", "two:Dense"),
    )
    engine = Engine({"learning-rate-too-high": RULES["learning-rate-too-high"]})
    engine.learn_structure(recording.structure)
    found = [finding for record in recording.records() for finding in engine.observe(record)]
    assert [finding.cause for finding in found] == ["learning_rate_too_high"]
    assert f"divide the learning rate (100) by about {divisor}, so that updates are near 0.001" in found[0].advice
