"""What is not finite is explained by the operation that was traced, in the step that shows it or in one before."""

from dataclasses import replace

import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Event

MODEL = chain("first:Dense", "last:Dense")
NAN = float("nan")


def traced(step, **more):
    data = {"operation": "log", "phase": "loss", "file": "train.py", "line": 7, "code": "log(p)", **more}
    return Event("first_bad_operation", step, data=data)


def told(series, *events, skipped=()):
    """The words of every rule about what is not finite: what it is and what to do."""
    names = ("non-finite-activation", "non-finite-gradient", "non-finite-loss")
    engine = Engine({name: RULES[name] for name in names})
    recording = Recording(series, MODEL, events=events, skipped=skipped)
    engine.learn_structure(recording.structure)
    for record in recording.records():
        engine.observe(record)
    return {found.rule: (found.explanation, found.advice) for found in engine.findings}


LOST = {
    "scalar/loss": (2.0, NAN, NAN),
    "first activation/nans": (0.0, 0.0, 64.0),
    "last activation/nans": (0.0, 0.0, 64.0),
}


@pytest.mark.parametrize("has_weights", [True, False])
def test_what_follows_from_a_traced_operation_names_it_and_its_step(has_weights):
    weights = {"first.weight weight/nans": (0.0, 64.0, 64.0)} if has_weights else {}
    words = told({**LOST, **weights}, traced(1))
    why, advice = words["non-finite-activation"]
    assert "the trace of step 1 shows: the first bad operation is log at train.py:7 (log(p))" in why
    assert "makes them" not in why
    assert advice.startswith("fix the operation traced at step 1 at train.py:7, ")
    first, mending = words["non-finite-loss"]
    assert "; the first bad operation is log at train.py:7" in first
    assert "of step" not in first.rpartition("the loss function makes it")[2]
    assert mending.startswith("look for log(0)")


def test_a_trace_is_remembered_where_its_step_recorded_nothing_else():
    series = {"scalar/loss": (2.0, None, NAN), "first activation/nans": (0.0, None, 64.0)}
    why, advice = told(series, traced(1))["non-finite-activation"]
    assert "the trace of step 1 shows" in why
    assert "step 1" in advice


def test_a_loss_after_a_traced_backward_pass_is_explained_by_it():
    series = {"scalar/loss": (2.0, 1.9, NAN), "first.weight gradient/nans": (0.0, 64.0, None)}
    words = told(series, traced(1, phase="backward", operation="sqrt"))
    why, advice = words["non-finite-loss"]
    assert "the trace of step 1 shows: the first bad operation is sqrt" in why
    assert "step 1" in advice
    assert words["non-finite-gradient"][1].startswith("look at derivatives")


def test_an_operation_behind_which_the_weights_are_finite_explains_nothing_later():
    series = {
        "scalar/loss_scale": 1024.0,
        "first activation/nans": (0.0, 0.0, 0.0, 64.0),
        "first.weight weight/nans": 0.0,
    }
    why, advice = told(series, traced(1, phase="backward"), skipped=(1,))["non-finite-activation"]
    assert "trace" not in why
    assert advice.startswith("check the operations inside this module")


def test_without_a_trace_bad_weights_send_to_the_step_before_and_not_into_the_module():
    why, advice = told({**LOST, "first.weight weight/nans": (0.0, 64.0, 64.0)})["non-finite-activation"]
    assert "its own weights (first.weight) were already non-finite after the step before" in why
    assert advice.startswith("look at the step before: its loss")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "check the traced operation for log"),
        ({"source": "its inputs were not finite already"}, "look at the source of that operation's inputs"),
    ],
)
def test_what_to_do_about_an_operation_that_was_traced_in_the_step_itself(more, words):
    series = {"first activation/nans": (0.0, 64.0)}
    assert told(series, traced(1, phase="forward", **more))["non-finite-activation"][1].startswith(words)


BACKWARD = {
    "first activation_grad/nans": (0.0, 9.0),
    "root activation_grad/nans": 0.0,
    "first.weight gradient/nans": (0.0, 64.0),
}


def spoilt_backward(more=(), *, is_direct=False):
    """The finding of a backward pass that spoils the gradient between the output of `root` and that of `first`."""
    model = chain("first:Dense", "root:Dense")
    if is_direct:
        model = replace(model, modules=tuple(replace(module, direct=module.inputs) for module in model.modules))
    return gradient_finding({**BACKWARD, **dict(more)}, model=model)


def gradient_finding(series, *events, model=MODEL):
    """The one finding of the rule about gradients."""
    engine = Engine({"non-finite-gradient": RULES["non-finite-gradient"]})
    engine.learn_structure(model)
    for record in Recording(series, model, events=events).records():
        engine.observe(record)
    (found,) = engine.findings
    return found


BAD_GRADIENT = {"first.weight gradient/nans": (0.0, 64.0)}
FORWARD = {"scalar/loss": 2.0, "first activation/nans": 0.0}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (FORWARD, "every recorded activation and the loss of step 1 are finite, but the gradient at first.weight"),
        (["scalar/loss"], "the loss of step 1 is finite, but the gradient at first.weight holds 64 NaN and 0 inf"),
        (["first activation/nans"], "every recorded activation of step 1 is finite, but the gradient at"),
    ],
    ids=["both", "loss", "activations"],
)
def test_of_the_forward_pass_only_what_was_recorded_is_said_to_be_finite(names, words):
    found = gradient_finding({**BAD_GRADIENT, **{name: FORWARD[name] for name in names}})
    assert found.explanation.startswith(words)
    assert found.confidence == 1.0
    assert found.advice.startswith("look at derivatives")


@pytest.mark.parametrize("more", [{}, {"scalar/loss": (2.0, None), "first activation/nans": (0.0, None)}])
def test_a_forward_pass_of_which_the_step_recorded_nothing_may_have_been_bad_as_well(more):
    found = gradient_finding({**BAD_GRADIENT, **more})
    assert "finite" not in found.explanation.partition("; ")[0]
    assert found.explanation.startswith(
        "step 1 recorded nothing of its forward pass, which may be the source: the gradient at first.weight"
    )
    assert found.confidence < 1.0
    assert found.advice.startswith("record `loss` or `activation` at the steps of `gradient`")


def test_a_trace_says_where_it_began_also_where_nothing_of_the_forward_pass_was_recorded():
    found = gradient_finding(BAD_GRADIENT, traced(1, phase="backward", operation="sqrt"))
    assert found.explanation.startswith("step 1 recorded nothing of its forward pass: the gradient at")
    assert found.confidence == 1.0
    assert "the first bad operation is sqrt" in found.explanation


def test_operations_between_two_modules_are_told_and_the_later_one_is_not_blamed_for_them():
    found = spoilt_backward({"root.weight gradient/nans": 0.0})
    assert (found.site, found.metric, found.evidence["nans"]) == ("first", "activation_grad/nans", 9.0)
    assert "its backward pass makes them, or that of operations outside of modules that take the output of first" in (
        found.explanation
    )
    assert "the gradient of its root.weight is finite, so those operations are more likely" in found.explanation


def test_without_the_parameters_of_the_later_module_nothing_is_said_of_them():
    assert "more likely" not in spoilt_backward().explanation


def test_a_later_module_whose_parameters_are_spoilt_as_well_is_the_one():
    found = spoilt_backward({"root.weight gradient/nans": (0.0, 3.0)})
    assert (found.site, found.metric) == ("root", "")
    assert "root's own output is finite, but that of its root.weight is not" in found.explanation


def test_a_later_module_that_is_given_the_very_output_is_the_one_and_no_series_of_it_is_shown_as_evidence():
    found = spoilt_backward({"root.weight gradient/nans": 0.0}, is_direct=True)
    assert (found.site, found.metric) == ("root", "")
    assert "it takes the output of first unchanged: its backward pass makes them, or" in found.explanation


def test_a_later_module_that_was_not_looked_at_in_the_step_is_not_said_to_be_finite():
    found = spoilt_backward({"root activation_grad/nans": (0.0, None), "root.weight gradient/nans": 0.0})
    assert found.site == "first"
    assert "own output is finite" not in found.explanation
