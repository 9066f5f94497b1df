"""Order among equals, among NaN, and where the shape depends on the data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mindscope.framework import DataDependentShape, ShapeError, Tensor, ops
from mindscope.framework.compiler import jit

_ROWS = arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 6)), elements=st.integers(-3, 3))


@settings(max_examples=60, deadline=None)
@given(_ROWS, st.booleans())
def test_sorting_is_a_permutation_that_keeps_equals_in_order(x, descending):
    values, places = (t.numpy() for t in ops.sort(Tensor(x), 1, descending))
    np.testing.assert_array_equal(np.take_along_axis(x, places, 1), values)
    rises = np.diff(values, axis=1) * (-1 if descending else 1)
    assert (rises >= 0).all()
    assert (np.diff(places, axis=1)[rises == 0] > 0).all()
    np.testing.assert_array_equal(ops.topk(Tensor(x), x.shape[1], 1, descending)[1].numpy(), places)


@settings(max_examples=40, deadline=None)
@given(_ROWS, st.booleans())
def test_distinct_values_and_their_inverse_make_the_tensor_again(x, is_sorted):
    found = ops.unique(Tensor(x), sorted=is_sorted)
    flat = x.reshape(-1)
    np.testing.assert_array_equal(found.values.numpy()[found.inverse.numpy()], flat)
    np.testing.assert_array_equal(flat[found.first.numpy()], found.values.numpy())
    assert found.counts.numpy().sum() == flat.size
    order = found.values.numpy() if is_sorted else found.first.numpy()
    assert (np.diff(order) > 0).all()


def test_nan_is_the_largest_and_makes_a_quantile_nan():
    x = Tensor([2.0, np.nan, 1.0])
    assert ops.sort(x)[0].tolist()[:2] == [1.0, 2.0]
    assert ops.topk(x, 1)[1].item() == 1
    assert np.isnan(ops.median(x).item())
    assert ops.median(Tensor([3.0, 1.0, 2.0, 10.0])).item() == 2.5
    assert np.isnan(ops.cummax(x)[0].tolist()[1:]).all()


def test_rows_of_slices_are_distinct_along_an_axis():
    found = ops.unique(Tensor([[1, 2], [0, 1], [1, 2]]), axis=0)
    assert found.values.tolist() == [[0, 1], [1, 2]]
    assert found.inverse.tolist() == [1, 0, 1]


@pytest.mark.parametrize("call", [ops.unique, ops.nonzero, lambda x: ops.masked_select(x, x > 0)])
def test_shapes_that_depend_on_the_data_are_refused_in_a_compiled_function(call):
    with pytest.raises(DataDependentShape, match="depends on the data"):
        jit(lambda x: call(x))(Tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: ops.topk(x, 4), "topk expects 0 to 3 elements along axis -1"),
        (lambda x: ops.kthvalue(x, 0), "k from 1 to 3, got 0"),
        (lambda x: ops.bincount(Tensor([0, 5]), 3), "numbers from 0 to 2, got 0..5"),
        (lambda x: ops.bincount(x, 3), "expects integers of shape"),
        (lambda x: ops.quantile(Tensor(np.ones(0)), 0.5), "an element or more"),
    ],
)
def test_errors_say_what_was_expected(call, words):
    with pytest.raises(ShapeError, match=words):
        call(Tensor([1.0, 2.0, 3.0]))
