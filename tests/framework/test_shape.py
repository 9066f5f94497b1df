"""Shape arithmetic against NumPy's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from mindscope.framework import ShapeError
from mindscope.framework.specs import (
    broadcast_shapes,
    matmul_shape,
    normalize_axes,
    reduced_shape,
    reshaped,
    window_length,
)


@given(shapes=mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_dims=4))
def test_broadcasting_agrees_with_numpy(shapes):
    assert broadcast_shapes(*shapes.input_shapes) == shapes.result_shape


@given(signature=mutually_broadcastable_shapes(signature="(m,n),(n,p)->(m,p)", max_side=4, max_dims=2))
def test_matmul_agrees_with_numpy(signature):
    a, b = signature.input_shapes
    assert matmul_shape(a, b) == signature.result_shape


def test_mismatched_shapes_say_what_must_agree():
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4,\) do not broadcast"):
        broadcast_shapes((2, 3), (4,))
    with pytest.raises(ShapeError, match=r"last axis of the first \(3\) must equal 4"):
        matmul_shape((2, 3), (4, 5))
    with pytest.raises(ShapeError, match="one axis or more"):
        matmul_shape((), (3,))


def test_axes_count_from_both_ends():
    assert normalize_axes((-1, 0), 3) == (0, 2)
    assert normalize_axes(None, 2) == (0, 1)
    with pytest.raises(ShapeError, match=r"expected -2\.\.1"):
        normalize_axes(2, 2)
    with pytest.raises(ShapeError, match="one axis twice"):
        normalize_axes((0, -2), 2)


def test_reduced_shapes():
    assert reduced_shape((2, 3, 4), (0, 2), keepdims=False) == (3,)
    assert reduced_shape((2, 3, 4), -1, keepdims=True) == (2, 3, 1)


def test_reshape_fills_one_length_and_keeps_the_size():
    assert reshaped((2, 6), (3, -1)) == (3, 4)
    assert reshaped((), (1, 1)) == (1, 1)
    for wanted in ((5, -1), (-1, -1), (3, 3), (-2, 6)):
        with pytest.raises(ShapeError, match="cannot reshape"):
            reshaped((2, 6), wanted)


@given(
    length=st.integers(1, 20),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    dilation=st.integers(1, 3),
)
def test_windows_are_counted_as_by_sliding_one(length, kernel, stride, padding, dilation):
    padded = length + 2 * padding
    starts = [s for s in range(0, padded, stride) if s + dilation * (kernel - 1) < padded]
    if starts:
        assert window_length(length, kernel, stride, padding, dilation) == len(starts)
    else:
        with pytest.raises(ShapeError, match="does not fit"):
            window_length(length, kernel, stride, padding, dilation)


def test_numpy_is_the_witness_of_the_empty_case():
    assert broadcast_shapes((0, 1), (3,)) == np.broadcast_shapes((0, 1), (3,)) == (0, 3)
