"""A model that acts is known by being asked, again and again, about less than it is trained on."""

import pytest
from mindscope.insight import Recording
from mindscope.insight.engine import Engine
from mindscope.insight.rule import RULES

CALM = tuple(2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40))
RISEN = (*CALM, 2.5, 3.0, 2.8, 2.9)


def causes(evaluated):
    """What is said of a loss that rises, where the model was asked so at every step."""
    engine = Engine({"loss-spike": RULES["loss-spike"]})
    series = {"scalar/loss": RISEN, " batch/size": 640.0, " batch/eval/size": evaluated}
    return [found.cause for record in Recording(series).records() for found in engine.observe(record)]


@pytest.mark.parametrize(
    ("evaluated", "expected"),
    [
        ((10.0, None, None) * 15, []),
        # an evaluation, of as much as a batch and more, however often
        ((640.0,) * 44, ["loss_spike"]),
        # a sample that is looked at now and then
        ((10.0, *(None,) * 9) * 5, ["loss_spike"]),
    ],
    ids=["acts", "evaluates", "samples"],
)
def test_the_loss_of_a_model_that_acts_may_rise(evaluated, expected):
    assert causes(evaluated[:44]) == expected
