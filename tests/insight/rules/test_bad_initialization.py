"""A high first loss is blamed on weights that scale up; where none do, the rule asks."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES
from mindscope.insight.engine import Engine
from mindscope.insight.recording import Recording, chain
from mindscope.insight.verdict import is_question
from mindscope.storage import Event, ParameterInfo

CALLED = {"loss": "cross_entropy", "domain": "logits", "columns": 10, "min": -16.0, "max": 16.0}


@pytest.mark.parametrize(("gain", "is_asked"), [(1.2, True), (5.0, False)])
def test_logits_that_are_multiplied_are_a_question(gain, is_asked):
    weight = {"std": gain / 64**0.5, "mean": 0.0, "fan_in": 64, "shape": [64, 64]}
    events = (Event("initial_weight", 0, "two.weight", data=weight), Event("loss_input", 0, data=CALLED))
    recording = Recording({"scalar/loss": (9.8, 9.0)}, chain("one:Dense", "two:Dense"), events=events)
    engine = Engine({"bad-initialization": RULES["bad-initialization"]})
    engine.learn_structure(recording.structure)
    (found,) = [finding for record in recording.records() for finding in engine.observe(record)]
    assert (found.site, is_question(found)) == ("two.weight", is_asked)


@pytest.mark.parametrize(("name", "shape", "found"), [("weight_g", (64, 1, 1), 0), ("weight_v", (64, 8, 3), 1)])
def test_magnitudes_of_a_normalised_weight_are_no_matrix(name, shape, found):
    structure = chain("one:Conv1d", "act:ReLU", "two:Conv1d", "three:Dense")
    info = ParameterInfo(f"two.{name}", shape, "float32")
    structure = replace(structure, parameters=(*structure.parameters, info))
    weight = {"std": 0.0005, "mean": 0.58, "fan_in": 1, "shape": [*shape]}
    recording = Recording({"scalar/loss": 1.0}, structure, (Event("initial_weight", 0, info.site, data=weight),))
    engine = Engine({"bad-initialization": RULES["bad-initialization"]})
    engine.learn_structure(structure)
    assert len([one for record in recording.records() for one in engine.observe(record)]) == found
