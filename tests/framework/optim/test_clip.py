"""Clipping by global norm against NumPy."""

import numpy as np
import pytest
from mindscope.framework import Parameter, Tensor
from mindscope.framework.optim import clip_by_global_norm


def _gradients(dtype=np.float32):
    generator = np.random.default_rng(3)
    return [generator.standard_normal(shape).astype(dtype) for shape in ((3, 4), (5,), (), (0, 2))]


def _norm(arrays):
    return float(np.sqrt(sum((a.astype(np.float64) ** 2).sum() for a in arrays)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_long_gradients_are_shortened_to_the_norm_together(dtype):
    arrays = _gradients(dtype)
    before = [a.copy() for a in arrays]
    norm = clip_by_global_norm(arrays, 0.5)
    assert norm == pytest.approx(_norm(before), rel=1e-6)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_allclose(array, old * (0.5 / norm), rtol=2e-3 if dtype == np.float16 else 1e-6)


def test_short_gradients_keep_their_bits():
    arrays = _gradients()
    before = [a.copy() for a in arrays]
    assert clip_by_global_norm(arrays, 1e6) == pytest.approx(_norm(before))
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_norm_that_is_not_finite_is_returned_and_changes_nothing(bad):
    arrays = _gradients()
    arrays[1][2] = bad
    before = [a.copy() for a in arrays]
    assert not np.isfinite(clip_by_global_norm(arrays, 0.1))
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays, before, strict=True))


def test_gradients_of_parameters_tensors_and_none_count_alike():
    parameter = Parameter(np.zeros(2, np.float32), "w")
    parameter.grad = Tensor(np.array([3.0, 0.0], np.float32))
    without = Parameter(np.zeros(2, np.float32), "unused")
    tensor = Tensor(np.array([4.0], np.float32))
    assert clip_by_global_norm([parameter, without, tensor, None], 1.0) == 5.0
    np.testing.assert_allclose(parameter.grad.numpy(), [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(tensor.numpy(), [0.8], rtol=1e-6)


def test_an_array_given_twice_counts_twice_and_is_scaled_once():
    array = np.array([3.0, 4.0], np.float32)
    assert clip_by_global_norm([array, array], 1.0) == pytest.approx(50**0.5)
    np.testing.assert_allclose(array, np.array([3.0, 4.0]) / 50**0.5, rtol=1e-6)


def test_the_norm_of_nothing_is_zero():
    assert clip_by_global_norm([], 1.0) == 0.0


def test_gradients_out_of_order_in_memory_are_scaled_too():
    array = np.asfortranarray(np.full((2, 3), 2.0, np.float32))
    norm = clip_by_global_norm([array], 1.0)
    np.testing.assert_allclose(array, 2.0 / norm, rtol=1e-6)


def test_squares_that_float32_cannot_hold_do_not_overflow_the_norm():
    assert clip_by_global_norm([np.full(4, 1e30, np.float32)], 1e31) == pytest.approx(2e30)


def test_a_read_only_gradient_is_refused_in_words():
    with pytest.raises(ValueError, match="read-only and cannot be scaled in place; copy it"):
        clip_by_global_norm([np.broadcast_to(np.float32(9.0), (3,))], 1.0)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_limit_must_be_above_zero(limit):
    with pytest.raises(ValueError, match="max_norm above 0"):
        clip_by_global_norm(_gradients(), limit)
