"""Rules that read the loss read each learner's own, with a memory of its own."""

import pytest
from mindscope.insight.engine import Engine
from mindscope.insight.recording import Recording
from mindscope.insight.rules import RULES
from mindscope.storage import Event, ModuleInfo, OptimizerInfo, ParameterInfo, StepRecord, Structure
from mindscope.storage.training_kinds import TrainingKind

_LEARNERS = Event("learners", 0, data={"learners": [{"name": "left"}, {"name": "right"}]})
_CALM = [2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40)]
_SPIKE = [2.5, 3.0, 2.8, 2.9]


def findings(left, right, *, kind="classification", is_told=True):
    engine = Engine({"loss-spike": RULES["loss-spike"]})
    engine.learn_structure(Structure((ModuleInfo("left", "Linear", 0, (), True),), (), ()))
    for step, (one, other) in enumerate(zip(left, right, strict=True)):
        events = (_LEARNERS, Event("training_kind", 0, data=TrainingKind(kind).to_data())) if not step else ()
        scalars = {"loss": one + other}
        if is_told:
            scalars |= {"left/loss": one, "right/loss": other}
        engine.observe(StepRecord(step, 0.0, scalars=scalars, events=events if is_told else ()))
    return engine.findings


def test_a_loss_that_the_sum_hides_is_reported_with_the_learner_that_it_is_of():
    hiding = [50.0 - loss for loss in (*_CALM, *_SPIKE)]
    (found,) = findings([*_CALM, *_SPIKE], hiding)
    assert (found.cause, found.site, found.metric) == ("loss_spike", "left", "scalar/left/loss")
    assert found.explanation.startswith("left: the loss rose")
    assert not findings([*_CALM, *_SPIKE], hiding, is_told=False)


def test_two_learners_have_a_finding_each():
    both = [*_CALM, *_SPIKE]
    assert {found.metric for found in findings(both, both)} == {"scalar/left/loss", "scalar/right/loss"}


@pytest.mark.parametrize("kind", ["adversarial", "policy", "value"])
def test_a_loss_without_a_floor_may_rise(kind):
    both = [*_CALM, *_SPIKE]
    assert not findings(both, both, kind=kind)


def test_a_learner_is_judged_by_its_own_rate_and_weights():
    learners = [{"name": "left", "optimizers": [1]}, {"name": "right", "optimizers": [0]}]
    parameters = tuple(
        ParameterInfo(f"{site}.weight", (4, 4), "float32", True, (number, 0))
        for site, number in (("left", 1), ("right", 0))
    )
    modules = tuple(ModuleInfo(site, "Linear", order, (), True) for order, site in enumerate(("left", "right")))
    optimizers = (OptimizerInfo("Adam", ({"lr": 0.001},)), OptimizerInfo("Adam", ({"lr": 0.3},)))
    series = {
        "scalar/loss": (1.4, *(900.0,) * 39),
        "scalar/left/loss": (1.386, *(900.0,) * 39),
        "scalar/right/loss": 0.7,
        "scalar/learning_rate": 0.001,
        "scalar/learning_rate/1": 0.3,
        "left.weight update/ratio_to_weight": (5.0, *(0.01,) * 39),
        "right.weight update/ratio_to_weight": 0.001,
    }
    kind = Event("training_kind", 0, data=TrainingKind("adversarial").to_data())
    told = Event("learners", 0, data={"learners": learners})
    recording = Recording(series, Structure(modules, parameters, optimizers), events=(kind, told))
    engine = Engine({"learning-rate-too-high": RULES["learning-rate-too-high"]})
    engine.learn_structure(recording.structure)
    for record in recording.records():
        engine.observe(record)
    (found,) = engine.findings
    assert (found.site, found.evidence["learning_rate"]) == ("left", 0.3)
    assert found.evidence["largest_update_ratio"] == 5.0
    assert "divide the learning rate (0.3)" in found.advice
