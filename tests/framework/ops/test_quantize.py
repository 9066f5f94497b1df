"""Numbers in few bits: rounding, ranges, and products that are exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindscope.framework import Tensor, ops
from mindscope.framework.errors import DtypeError, ShapeError

_random = np.random.default_rng(1)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["int8", "uint8", "int16", "uint16"]), st.floats(0.01, 2.0), st.integers(0, 99))
def test_back_and_forth_is_off_by_half_a_step_at_most(dtype, scale, seed):
    info = np.iinfo(dtype)
    zero = (int(info.min) + int(info.max) + 1) // 2
    x = np.random.default_rng(seed).uniform(-100, 100, 50).astype(np.float32) * np.float32(scale)
    step, offset = Tensor(np.float32(scale)), Tensor(np.asarray(zero, dtype))
    q = ops.quantize_linear(Tensor(x), step, offset)
    assert q.dtype == np.dtype(dtype)
    assert np.abs(ops.dequantize_linear(q, step, offset).numpy() - x).max() <= 0.5001 * scale


def test_halves_go_to_the_even_neighbour_and_the_range_is_kept():
    x = Tensor(np.array([0.5, 1.5, 2.5, -0.5, 300, -300], np.float32))
    q = ops.quantize_linear(x, Tensor(np.float32(1.0)), dtype="int8")
    assert q.tolist() == [0, 2, 2, 0, 127, -128]


def test_scales_along_an_axis_and_in_blocks():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    scale = np.array([1, 2, 4, 8], np.float32)
    each = ops.quantize_linear(Tensor(x), Tensor(scale), dtype="int8", axis=1)
    assert np.array_equal(each.numpy(), np.rint(x / scale))
    blocks = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    found = ops.quantize_linear(Tensor(x), Tensor(blocks), dtype="int8", axis=1, block=2)
    assert np.array_equal(found.numpy(), np.rint(x / np.repeat(blocks, 2, 1)))


def test_integer_products_are_exact():
    a = _random.integers(0, 256, (5, 700)).astype(np.uint8)
    b = _random.integers(-128, 128, (700, 4)).astype(np.int8)
    a_zero, b_zero = np.uint8(7), _random.integers(-9, 9, 4).astype(np.int8)
    found = ops.matmul_integer(Tensor(a), Tensor(b), Tensor(a_zero), Tensor(b_zero))
    assert found.dtype == np.int32
    assert np.array_equal(found.numpy(), (a.astype(np.int64) - 7) @ (b.astype(np.int64) - b_zero))


def test_integer_convolution_pads_with_the_zero_point():
    x = np.full((1, 1, 3, 3), 5, np.uint8)
    weight = np.ones((1, 1, 3, 3), np.uint8)
    found = ops.conv_integer(Tensor(x), Tensor(weight), Tensor(np.uint8(5)), padding=1)
    assert not found.numpy().any()


def test_a_quantized_product_is_the_product_of_what_the_numbers_stand_for():
    a, b = _random.uniform(-1, 1, (6, 20)), _random.uniform(-1, 1, (20, 5))
    pairs = []
    for x in (a, b):
        q, scale, zero = ops.dynamic_quantize_linear(Tensor(x.astype(np.float32)))
        pairs.append((q, scale, zero))
    scale, zero = Tensor(np.float32(0.05)), Tensor(np.uint8(128))
    found = ops.qlinear_matmul(*pairs[0], *pairs[1], scale, zero)
    real = [ops.dequantize_linear(*pair).numpy().astype(np.float64) for pair in pairs]
    back = (found.numpy().astype(np.float64) - 128) * 0.05
    np.testing.assert_allclose(back, real[0] @ real[1], atol=0.0251)


def test_a_type_of_too_many_bits_and_a_scale_of_another_length_are_refused():
    x = Tensor(np.ones((2, 3), np.float32))
    with pytest.raises(DtypeError, match="int8, uint8, int16 or uint16"):
        ops.quantize_linear(x, Tensor(np.float32(1)), dtype="int64")
    with pytest.raises(ShapeError, match=r"expects \(3,\)"):
        ops.quantize_linear(x, Tensor(np.ones(2, np.float32)))
