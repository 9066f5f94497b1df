"""Input far from unit scale, in whichever forward of a step it comes."""

import numpy as np
import pytest
from mindscope.insight import RULES
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Block, Layout, StepRecord

NUMBERS = {"l2_norm": 0.0, "mean": 0.0, "std": 1.0, "min": -1.0, "max": 1.0, "size": 64.0}


def found(*scales):
    """Findings of steps in which the forwards were given input of these scales."""
    calls = tuple(range(len(scales[0])))
    layout = Layout("batch", ("",) * len(calls), tuple(NUMBERS), ("float64",) * len(NUMBERS), calls)
    engine = Engine({"unnormalized-input": RULES["unnormalized-input"]})
    engine.learn_structure(chain("one:Dense", "two:Dense"))
    for step, scale in enumerate(scales):
        rows = np.array(
            [list((NUMBERS | {"l2_norm": 8.0 * value, "max": value, "min": -value}).values()) for value in scale]
        )
        engine.observe(StepRecord(step=step, time=0.0, blocks=(Block(layout, rows),)))
    return [finding.step for finding in engine.findings]


@pytest.mark.parametrize("scale", [(500.0, 1.0, 1.0), (1.0, 500.0, 1.0)], ids=["first", "second"])
def test_the_input_of_any_forward_counts(scale):
    assert found(*(scale,) * 4) == [0]


def test_what_a_model_gives_to_itself_may_be_nothing_at_first_and_grow_as_it_diverges():
    assert found(*((1.0, 1e-6),) * 4) == []
    assert found((1.0, 1.0), *((1.0, 500.0),) * 6) == []
