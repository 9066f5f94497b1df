"""The course of a step under contract: gradients, groups, schedules, hooks, resuming."""

import numpy as np
import pytest
from mindscope.framework import Parameter, optim
from mindscope.framework.optim import StepDecay

from tests.contracts.optimizer_cases import every_optimizer, gradients, parameters


@every_optimizer
def test_step_takes_the_gradients_that_backward_left(case):
    by_call, by_step = parameters(), parameters()
    first, second = case.make(by_call), case.make(by_step)
    for parameter in by_step:
        (parameter * parameter).sum().backward()
    first([2.0 * p.numpy() for p in by_call])
    second.step()
    for a, b in zip(by_call, by_step, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    second.zero_grad()
    assert all(p.grad is None for p in by_step)


@every_optimizer
def test_a_parameter_without_gradient_stays_and_does_not_age(case):
    mine, reference = parameters(), parameters()
    optimizer, other = case.make(mine), case.make(reference)
    given = gradients()
    optimizer((None, *given[1:]))
    np.testing.assert_array_equal(mine[0].numpy(), parameters()[0].numpy())
    optimizer(given)
    other(given)
    np.testing.assert_array_equal(mine[0].numpy(), reference[0].numpy())


@every_optimizer
def test_groups_have_rates_and_options_of_their_own(case):
    mine, reference = parameters(), parameters()
    optimizer = case.make([{"params": mine[:2]}, {"params": mine[2:], "lr": 0.0, "weight_decay": 0.0}])
    other = case.make(reference)
    given = gradients()
    optimizer(given)
    other(given)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.0]
    for position, (a, b) in enumerate(zip(mine, reference, strict=True)):
        np.testing.assert_array_equal(a.numpy(), b.numpy() if position < 2 else parameters()[position].numpy())


@every_optimizer
def test_a_schedule_sets_the_rate_of_each_step(case):
    mine, reference = parameters(), parameters()
    optimizer, other = case.make(mine, StepDecay(0.1, every=2)), case.make(reference)
    rates = []
    optimizer.register_step_pre_hook(lambda o, _: rates.append(o.param_groups[0]["lr"]))
    for step in range(5):
        other.param_groups[0]["lr"] = StepDecay(0.1, every=2)(step)
        optimizer(gradients(seed=step))
        other(gradients(seed=step))
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])
    for a, b in zip(mine, reference, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@every_optimizer
def test_hooks_see_the_step_from_both_sides_and_can_be_removed_meanwhile(case):
    mine = parameters()
    optimizer, given, seen = case.make(mine), gradients(), []

    def before(o, g):
        seen.append(("before", o.step_count, [x is y for x, y in zip(g, given, strict=True)], mine[0].asnumpy()))
        handle.remove()

    handle = optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(lambda o, g: seen.append(("after", o.step_count, len(g), mine[0].asnumpy())))
    optimizer(given)
    optimizer(given)
    assert [entry[:2] for entry in seen] == [("before", 0), ("after", 1), ("after", 2)]
    assert seen[0][2] == [True] * len(given)
    assert not np.array_equal(seen[0][3], seen[1][3])


@every_optimizer
def test_a_failing_hook_stops_the_step_before_anything_moved(case):
    mine = parameters()
    optimizer = case.make(mine)

    def fail(*_):
        raise KeyError("mine")

    handle = optimizer.register_step_pre_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        optimizer(gradients())
    np.testing.assert_array_equal(mine[0].numpy(), parameters()[0].numpy())
    assert optimizer.step_count == 0
    handle.remove()
    optimizer(gradients())
    assert optimizer.step_count == 1


@every_optimizer
def test_a_resumed_optimizer_goes_on_bit_for_bit(case):
    mine = parameters(np.float32)
    optimizer = case.make(mine, StepDecay(0.1, every=3))
    for step in range(4):
        optimizer(gradients(np.float32, step))
    saved, weights = optimizer.state_dict(), [p.asnumpy() for p in mine]
    resumed = [Parameter(w, f"p{n}") for n, w in enumerate(weights)]
    other = case.make(resumed, StepDecay(0.1, every=3))
    other.load_state_dict(saved)
    for step in range(4, 8):
        optimizer(gradients(np.float32, step))
        other(gradients(np.float32, step))
    assert optimizer.step_count == other.step_count == 8
    for a, b in zip(mine, resumed, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@every_optimizer
def test_a_step_between_forward_and_backward_is_noticed(case):
    parameter = Parameter(np.ones(3), "w")
    optimizer = case.make([parameter])
    loss = (parameter * parameter).sum()
    optimizer([np.ones(3)])
    with pytest.raises(RuntimeError, match="was changed in place after it was used"):
        loss.backward()


def test_decay_of_weights_has_its_other_name():
    assert optim.AdamWeightDecay is optim.AdamW


def test_a_list_of_rates_is_a_schedule_whose_last_rate_stays():
    mine, seen = parameters(), []
    optimizer = optim.SGD(mine, [0.3, 0.2])
    optimizer.register_step_pre_hook(lambda o, _: seen.append(o.param_groups[0]["lr"]))
    for _ in range(3):
        optimizer(gradients())
    assert seen == [0.3, 0.2, 0.2]
    with pytest.raises(ValueError, match="one rate or more"):
        optim.SGD(mine, [])
