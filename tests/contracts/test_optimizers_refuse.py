"""What optimizers refuse, in words: gradients, parameters, states and options that make no sense."""

import numpy as np
import pytest
from mindscope.framework import Parameter, ShapeError, Tensor, optim

from tests.contracts.optimizer_cases import every_optimizer, gradients, parameters


@every_optimizer
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (gradients()[:2], ShapeError, "expects 4 gradients, one for each of its parameters, got 2"),
        ((np.zeros((5, 3)), *gradients()[1:]), ShapeError, r"shape \(3, 5\) for parameter 'p0', got \(5, 3\)"),
        ((np.zeros((3, 5), np.int64), *gradients()[1:]), TypeError, "floating-point gradient for 'p0', got int64"),
    ],
    ids=["too few", "shape", "dtype"],
)
def test_gradients_that_do_not_fit_are_refused_in_words(case, given, error, words):
    mine = parameters()
    with pytest.raises(error, match=words):
        case.make(mine)(given)
    np.testing.assert_array_equal(mine[1].numpy(), parameters()[1].numpy())


@every_optimizer
def test_parameters_that_make_no_sense_are_refused_in_words(case):
    mine = parameters()
    for given, error, words in (
        ([], ValueError, "at least one parameter"),
        ([mine[0], mine[0]], ValueError, "'p0' appears in group 0 and again in group 0"),
        ([Tensor(np.ones(2))], TypeError, "expects Parameters, got Tensor"),
        ([{"params": mine, "learning_rat": 1.0}], ValueError, "no option 'learning_rat'"),
        ([{"params": mine, "weight_decy": 1.0}], ValueError, "did you mean 'weight_decay'"),
        ([{"lr": 1.0}], ValueError, "group 0 has no 'params'"),
        ([{"params": []}], ValueError, "group 0 is empty"),
        ([mine[0], {"params": mine[1:]}], TypeError, "a mixture of both"),
        ([{"params": mine, "weight_decay": -1.0}], ValueError, "weight_decay of 0 or more, got -1.0"),
    ):
        with pytest.raises(error, match=words):
            case.make(given)
    for rate in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="learning rate at step 0"):
            case.make(mine, rate)


@every_optimizer
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(case):
    optimizer = case.make(parameters())
    optimizer(gradients())
    good = optimizer.state_dict()
    other = case.make([Parameter(np.ones(2), "w")])
    for state, words in (
        ({}, "kind, step_count, steps, groups, slots missing"),
        ({**good, "kind": "LBFGS"}, "it was saved by LBFGS"),
        ({**good, "groups": []}, "expected 1 groups, got 0"),
        ({**good, "slots": {"wrong": []}}, "expected slots"),
    ):
        with pytest.raises(ValueError, match=words):
            optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="expected 1 parameters, got 4"):
        other.load_state_dict(good)
    assert optimizer.step_count == 1
    assert other.step_count == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: optim.SGD(p, 0.1, momentum=1.0), r"momentum in \[0, 1\), got 1.0"),
        (lambda p: optim.SGD(p, 0.1, nesterov=True), "where nesterov is asked for"),
        (lambda p: optim.Adam(p, beta1=1.0), r"both betas in \[0, 1\)"),
        (lambda p: optim.AdamW(p, eps=0.0), "eps above 0, got 0.0"),
        (lambda p: optim.Adagrad(p, initial_accumulator_value=-1.0), "initial_accumulator_value of 0 or more"),
        (lambda p: optim.RMSprop(p, alpha=1.0), r"alpha in \[0, 1\)"),
        (lambda p: optim.Lion(p, beta2=1.5), r"beta2 in \[0, 1\)"),
        (lambda p: optim.Lamb(p, 0.1, eps=0.0), "eps above 0, got 0.0"),
        (lambda p: optim.Lars(p, 0.1, coefficient=-1.0), "coefficient of 0 or more"),
        (lambda p: optim.Adafactor(p, clip_threshold=0.0), "clip_threshold above 0"),
        (lambda p: optim.Adafactor(p, eps=(None, -1.0)), "eps to be two numbers"),
        (lambda p: optim.Muon(p, adjust="best"), "adjust to be one of match_rms_adamw, original, none"),
        (lambda p: optim.Muon(p, ns_steps=0), "ns_steps from 1 to 99"),
    ],
)
def test_options_out_of_range_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make(parameters())


def test_a_buffer_asked_for_later_is_refused():
    optimizer = optim.SGD(parameters(), 0.1)
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(ValueError, match="keeps no buffer; give momentum when you make it"):
        optimizer(gradients())
