"""The loss scale as a state machine, and what a skipped step leaves untouched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import Parameter, Tensor
from mindscope.framework.optim import SGD, Adam, DynamicLossScaler, StaticLossScaler


def _setting(**options):
    parameter = Parameter(np.array([1.0, 2.0], np.float32), "w")
    return parameter, Adam([parameter], 0.1), DynamicLossScaler(**options)


def _give(parameter, *values):
    parameter.grad = Tensor(np.array(values, np.float32))


def test_scaled_and_unscaled_gradients_are_those_of_the_loss():
    parameter, optimizer, scaler = _setting(scale_value=1024.0)
    scaler.scale((parameter * parameter).sum()).backward()
    np.testing.assert_array_equal(parameter.grad.numpy(), [2048.0, 4096.0])
    assert scaler.unscale(optimizer)
    np.testing.assert_array_equal(parameter.grad.numpy(), [2.0, 4.0])
    assert scaler.step(optimizer)
    np.testing.assert_array_equal(parameter.grad.numpy(), [2.0, 4.0])  # not divided a second time


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_overflow_skips_the_step_halves_the_scale_and_tells_the_hooks(bad):
    parameter, optimizer, scaler = _setting(scale_value=8.0)
    told = []
    optimizer.register_step_skipped_hook(lambda o, scale: told.append((o, scale)))
    _give(parameter, 1.0, bad)
    assert not scaler.step(optimizer)
    np.testing.assert_array_equal(parameter.numpy(), [1.0, 2.0])
    assert told == [(optimizer, 8.0)]
    assert scaler.loss_scale == 4.0
    assert optimizer.step_count == 0
    assert not any(slot[0].any() for slot in optimizer.slots().values())


def test_the_scale_grows_after_a_window_of_good_steps_in_a_row():
    parameter, optimizer, scaler = _setting(scale_value=2.0, scale_window=3)
    scales = []
    for value in (1.0, 1.0, np.nan, 1.0, 1.0, 1.0, 1.0):
        _give(parameter, value, 1.0)
        scaler.step(optimizer)
        scales.append(scaler.loss_scale)
    assert scales == [2.0, 2.0, 1.0, 1.0, 1.0, 2.0, 2.0]


@settings(max_examples=50)
@given(st.lists(st.booleans(), max_size=60))
def test_the_scale_stays_a_power_in_its_range(outcomes):
    parameter, optimizer, scaler = _setting(scale_value=4.0, scale_window=2)
    for good in outcomes:
        _give(parameter, 1.0 if good else np.inf, 0.0)
        assert scaler.step(optimizer) == good
        assert 1.0 <= scaler.loss_scale <= 2.0**24
        assert np.log2(scaler.loss_scale) % 1 == 0


def test_a_gradient_shared_by_two_parameters_is_divided_once():
    first, second = (Parameter(np.zeros(2, np.float32), name) for name in "ab")
    first.grad = second.grad = Tensor(np.array([4.0, 4.0], np.float32))
    DynamicLossScaler(scale_value=2.0).unscale(Adam([first, second], 0.1))
    np.testing.assert_array_equal(first.grad.numpy(), [2.0, 2.0])


def test_dividing_twice_in_a_step_is_refused():
    parameter, optimizer, scaler = _setting()
    _give(parameter, 1.0, 1.0)
    scaler.unscale(optimizer)
    with pytest.raises(RuntimeError, match=r"unscaled already in this step; call step\(\)"):
        scaler.unscale(optimizer)


def test_a_saved_scaler_goes_on_where_it_stood():
    parameter, optimizer, scaler = _setting(scale_value=2.0, scale_window=2)
    _give(parameter, 1.0, 1.0)
    scaler.step(optimizer)
    other = DynamicLossScaler(scale_window=2)
    other.load_state_dict(scaler.state_dict())
    other.step(optimizer)
    assert other.loss_scale == 4.0
    with pytest.raises(ValueError, match="good_steps missing"):
        other.load_state_dict({"loss_scale": 1.0})


@pytest.mark.parametrize(
    "options", [{"scale_value": 0.5}, {"scale_value": np.inf}, {"scale_factor": 1.0}, {"scale_window": 0}]
)
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=f"expects {next(iter(options))}"):
        DynamicLossScaler(**options)


def test_a_static_scale_stays_and_skips_what_overflows():
    parameter = Parameter(np.ones(2, np.float32), "w")
    optimizer, scaler = SGD([parameter], 0.5), StaticLossScaler(8.0)
    scaler.scale((parameter * parameter).sum()).backward()
    assert scaler.unscale(optimizer)
    np.testing.assert_array_equal(parameter.grad.numpy(), [2.0, 2.0])
    assert scaler.step(optimizer)
    np.testing.assert_array_equal(parameter.numpy(), [0.0, 0.0])
    parameter.grad = Tensor(np.array([np.inf, 1.0], np.float32))
    assert not scaler.step(optimizer)
    assert (optimizer.step_count, scaler.loss_scale) == (1, 8.0)
    with pytest.raises(ValueError, match=r"scale_value of 1 or more, got 0\.5"):
        StaticLossScaler(0.5)


def test_a_fixed_scale_refuses_to_divide_twice_too():
    weight = Parameter(np.ones(2, np.float32), "w")
    weight.grad = Tensor(np.full(2, 8.0, np.float32))
    scaler, optimizer = StaticLossScaler(4.0), Adam([weight], 0.1)
    assert scaler.unscale(optimizer)
    with pytest.raises(RuntimeError, match="unscaled already"):
        scaler.unscale(optimizer)
    np.testing.assert_array_equal(weight.grad.numpy(), [2.0, 2.0])
