"""The table of primitives: its errors, its silence, and that numba stays out until it is needed."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from mindscope.framework import PRIMITIVES, Primitive, ShapeError, Tensor, ops, quiet
from mindscope.framework.errors import EngineError, NameTaken
from mindscope.framework.testing import check_gradients


def test_a_name_is_registered_once():
    with pytest.raises(NameTaken, match="'add' is registered already"):
        Primitive("add", np.add, lambda a, b: a, ())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x + Tensor(np.ones(4)), r"'add' cannot take \(2, 3\) float64, \(4,\) float64: .*do not broadcast"),
        (lambda x: x @ x, r"'matmul' cannot take .*last axis of the first \(3\) must equal 2"),
        (lambda x: x.reshape(4), r"'reshape' cannot take .*number of elements must stay"),
        (lambda x: x[5], r"'getitem' cannot take .*out of bounds"),
        (lambda x: ops.gather(x, Tensor([2])), r"'gather' cannot take .*out of bounds"),
        (lambda x: ops.concat([x, Tensor(np.ones((2, 2)))]), r"'concat' cannot take .*expects equal other axes"),
        (lambda x: ops.linear(x, x, Tensor(np.ones(3))), r"'linear' cannot take .*bias \(out\)"),
        (lambda x: ops.einsum("ij,jk->ik", x, x), r"'einsum' cannot take .*axis 'j' is 3 and 2"),
        (lambda x: ops.einsum("ijk->i", x), r"term 'ijk' has 3 letters for a tensor of shape \(2, 3\)"),
        (lambda x: ops.conv2d(x, x), r"'conv' cannot take .*expects images"),
        (lambda x: ops.layer_norm(x, Tensor(np.ones(2)), Tensor(np.ones(3))), r"'layer_norm' .*expects weights \(3,\)"),
        (lambda x: ops.cross_entropy(x, Tensor([1, 3])), "label 3 at row 1 names no class"),
        (lambda x: ops.cross_entropy(x, Tensor([1, 1, 1])), "'cross_entropy' cannot take"),
        (lambda x: ops.max_pool2d(x.reshape(1, 1, 2, 3), 4), "does not fit"),
        (lambda x: ops.split(x, [1, 3], 1), "lengths that add up to 3"),
        (lambda x: ops.mse(x, Tensor(np.ones(3))), "mse expects equal shapes"),
    ],
)
def test_errors_name_the_primitive_and_both_shapes(call, words):
    with pytest.raises(ShapeError, match=words):
        call(Tensor(np.ones((2, 3))))


def test_an_error_can_name_the_cell_once():
    error = EngineError("expects more").at("encoder.0").at("encoder")
    assert str(error) == "in cell 'encoder.0': expects more"


def test_overflow_and_nan_are_silent_also_on_the_way_back():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = Tensor(np.array([1e300, 0.0, -1.0]), requires_grad=True)
        y = ops.log(x) + x * x * x + x / x + ops.exp(x)
        y.sum().backward()
    assert np.isnan(y.numpy()[2])
    assert np.isinf(y.numpy()[0])


def test_quiet_restores_numpys_own_state():
    with np.errstate(over="raise"):
        with quiet(), quiet():
            assert np.geterr()["over"] == "ignore"
        assert np.geterr()["over"] == "raise"


def test_importing_the_engine_does_not_import_numba():
    code = "import sys, mindscope.framework as f; f.ops.relu(f.Tensor([1.0])); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_check_gradients_finds_a_wrong_rule():
    wrong = Primitive("wrong_square", np.square, lambda x: x, (lambda g, _, x: g * x,))
    try:
        with pytest.raises(AssertionError, match="rules say"):
            check_gradients(wrong, Tensor(np.array([1.0, 2.0])))
    finally:
        del PRIMITIVES["wrong_square"]


def test_check_gradients_finds_a_wrong_second_derivative():
    slope = Primitive("wrong_slope", lambda g, x: 2 * g * x, lambda g, x: g, (lambda gg, _, g, x: gg * x * 2.0, None))
    right = Primitive("right_square", np.square, lambda x: x, (lambda g, _, x: slope(g, x),))
    try:
        check_gradients(right, Tensor(np.array([1.0, 2.0])), order=1)
        with pytest.raises(AssertionError, match="order 1 to go"):
            check_gradients(right, Tensor(np.array([1.0, 2.0])), order=2)
    finally:
        del PRIMITIVES["wrong_slope"], PRIMITIVES["right_square"]
