"""Inputs of every kind: broadcast, empty, of no axes, not contiguous, of 16 bits, NaN and infinite."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays, mutually_broadcastable_shapes
from mindscope.framework import Key, Tensor, ops

_BINARY = {
    "add": (ops.add, np.add),
    "subtract": (ops.subtract, np.subtract),
    "multiply": (ops.multiply, np.multiply),
    "divide": (ops.divide, np.true_divide),
    "maximum": (ops.maximum, np.maximum),
}


@settings(max_examples=60, deadline=None)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=3, max_side=4), data=st.data())
@pytest.mark.parametrize("name", _BINARY)
def test_broadcasting_and_its_transpose(name, shapes, data):
    mine, numpys = _BINARY[name]
    values = st.floats(0.5, 2.0, width=32)
    a, b = (data.draw(arrays(np.float64, shape, elements=values)) for shape in shapes.input_shapes)
    x, y = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
    out = mine(x, y)
    np.testing.assert_array_equal(out.numpy(), numpys(a, b))
    out.sum().backward()
    assert x.grad.shape == a.shape
    assert y.grad.shape == b.shape
    if name == "add":
        assert x.grad.numpy().sum() == out.size


_ELEMENTWISE = (
    ops.relu, ops.gelu, lambda x: ops.gelu(x, approximate=False), ops.silu, ops.sigmoid, ops.tanh, ops.softplus,
    ops.exp, ops.leaky_relu, ops.square, lambda x: ops.clip(x, -1.0, 1.0), lambda x: ops.dropout(x, Key(0)),
    ops.asinh, ops.atan, ops.cosh, ops.sinh, lambda x: ops.asin(x * 0.3), lambda x: ops.atan2(x, x + 5.0), ops.erf,
    ops.erfc, lambda x: ops.erfinv(x * 0.3), lambda x: ops.lgamma(x + 4.0), lambda x: ops.digamma(x + 4.0),
    lambda x: ops.logaddexp(x, -x), lambda x: ops.hypot(x, x + 5.0), ops.elu, ops.celu, ops.selu, ops.hardswish,
    ops.mish, ops.softsign, ops.logsigmoid, lambda x: ops.log2(x + 4.0), ops.exp2, lambda x: ops.fmod(x + 9.0, 7.0),
    lambda x: ops.xlogy(x, x + 4.0), lambda x: x * 2.0 + 1, lambda x: x**3, lambda x: ops.maximum(x, 0.5),
    lambda x: ops.where(x > 0, x, -x),
)  # fmt: skip
_ROWWISE = (
    ops.softmax, ops.log_softmax, lambda x: x.max(1), lambda x: x.mean(), lambda x: x.sum(0), lambda x: x @ x.T,
    lambda x: ops.layer_norm(x, x[0], x[1]), lambda x: ops.rms_norm(x, x[0]), lambda x: ops.linear(x, x, x[:, 0]),
    lambda x: ops.cross_entropy(x, Tensor([1, 2, 3, 4])), lambda x: ops.batch_norm(x, x[0], x[1])[0],
    lambda x: ops.gather(x, Tensor([0, 0])), lambda x: x[np.array([0, 0])], lambda x: ops.concat([x, x]),
    lambda x: ops.max_pool2d(x.reshape(1, 1, 4, 8), 2), lambda x: ops.avg_pool2d(x.reshape(1, 1, 4, 8), 2),
    lambda x: ops.conv2d(x.reshape(1, 1, 4, 8), x[:2, :2].reshape(1, 1, 2, 2), x[0, :1], padding=1),
    lambda x: ops.scaled_dot_product_attention(x, x, x, causal=True), lambda x: x.cumsum(1), lambda x: x.cumprod(0),
    lambda x: ops.logcumsumexp(x, 1), lambda x: x.cummax(1)[0], lambda x: x.prod(1), lambda x: ops.logsumexp(x, 0),
    lambda x: x.std(1), lambda x: x.sort(1)[0], lambda x: x.topk(2)[0], lambda x: x.median(1), lambda x: x.l2_norm(1),
    lambda x: ops.gather_elements(x, Tensor([[0, 2], [1, 1], [0, 3], [3, 3]]), 1), lambda x: x.roll(1, 1),
    lambda x: ops.scatter_elements(x, Tensor([[0, 2], [1, 1], [0, 3], [3, 3]]), x[:, :2], 1, "add"), lambda x: x.flip(),
    lambda x: ops.pad(x, ((1, 1), (2, 0)), "reflect"), lambda x: ops.tile(x, (2, 1)), lambda x: ops.diagonal(x, 1),
    lambda x: ops.tril(x), lambda x: ops.repeat(x, 2, 1), lambda x: ops.inv(x[:, :4] * 0.1 + ops.eye(4, dtype=x.dtype)),
    lambda x: ops.solve(x[:, :4] * 0.1 + ops.eye(4, dtype=x.dtype), x), lambda x: ops.group_norm(x, 2) * x,
    lambda x: ops.einsum("ij,kj", x, x), lambda x: ops.normalize(x) * x,
    lambda x: ops.tensordot(x, x, ((0, 1), (0, 1))),
)  # fmt: skip
_EVERY = _ELEMENTWISE + _ROWWISE


def _run(function, array):
    x = Tensor(array, requires_grad=True)
    y = function(x)
    (y * y).sum().backward()
    return y, x.grad


@pytest.mark.parametrize("number", range(len(_EVERY)))
def test_memory_layout_changes_nothing(number):
    base = np.random.default_rng(number).uniform(-2, 2, (8, 8)).astype(np.float32)
    plain = np.ascontiguousarray(base[::2].T[:, ::-1].T)
    y, g = _run(_EVERY[number], plain)
    z, h = _run(_EVERY[number], base[::2].T[:, ::-1].T)
    np.testing.assert_allclose(z.numpy(), y.numpy(), rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(h.numpy(), g.numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("number", range(len(_EVERY)))
def test_16_bit_floats_stay_themselves_and_agree_with_32(number, dtype):
    wide = np.random.default_rng(number).uniform(-1, 1, (4, 8)).astype(dtype)
    y, g = _run(_EVERY[number], wide)
    z, h = _run(_EVERY[number], wide.astype(np.float32))
    assert y.dtype == g.dtype == dtype
    loose = 0.02 if dtype == "float16" else 0.12
    for narrow, reference in ((y, z), (g, h)):
        scale = np.abs(reference.numpy()).max() + 1e-3
        np.testing.assert_allclose(narrow.numpy().astype(np.float32) / scale, reference.numpy() / scale, atol=loose)


@pytest.mark.parametrize("number", range(len(_ELEMENTWISE)))
@pytest.mark.parametrize("shape", [(0,), (3, 0), ()], ids=str)
def test_empty_tensors_and_tensors_of_no_axes(number, shape):
    y, g = _run(_ELEMENTWISE[number], np.full(shape, 0.5))
    assert y.shape == g.shape == shape


def test_reductions_of_nothing():
    empty = Tensor(np.ones((0, 3)), requires_grad=True)
    assert empty.sum().item() == 0.0
    assert empty.sum(0).tolist() == [0.0, 0.0, 0.0]
    assert np.isnan(empty.mean().item())
    for function in (ops.softmax, ops.log_softmax, lambda x: ops.layer_norm(x, Tensor(np.ones(3)), Tensor(np.ones(3)))):
        assert function(empty).shape == (0, 3)
    assert np.isnan(ops.cross_entropy(empty, Tensor(np.ones(0, np.int64))).item())
    assert ops.conv2d(Tensor(np.ones((0, 2, 5, 5))), Tensor(np.ones((4, 2, 3, 3)))).shape == (0, 4, 3, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        ops.relu,
        ops.gelu,
        lambda x: ops.gelu(x, approximate=False),
        ops.silu,
        ops.sigmoid,
        ops.tanh,
        ops.exp,
        ops.softplus,
    ],
)
def test_nan_stays_nan_and_its_neighbours_stay_numbers(function, dtype):
    y, g = _run(function, np.array([1.0, np.nan, -1.0], dtype))
    np.testing.assert_array_equal(np.isnan(y.numpy()), [False, True, False])
    np.testing.assert_array_equal(np.isnan(g.numpy()), [False, True, False])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_inputs_reach_the_limits_of_the_functions(dtype):
    x = np.array([-np.inf, -1e30, -200.0, 200.0, 1e30, np.inf], dtype)
    np.testing.assert_array_equal(ops.sigmoid(Tensor(x)).numpy(), [0, 0, ops.sigmoid(Tensor(x[2:3])).item(), 1, 1, 1])
    np.testing.assert_allclose(ops.gelu(Tensor(x[1:])).numpy(), np.maximum(x[1:], 0), atol=1e-30)
    np.testing.assert_allclose(ops.silu(Tensor(x[1:])).numpy(), np.maximum(x[1:], 0), atol=1e-30)
    for function in (ops.gelu, ops.silu, ops.sigmoid):
        assert np.isfinite(_run(function, np.array([-30.0, 30.0], dtype))[1].numpy()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_with_nan_spoils_itself_alone(dtype):
    x = np.zeros((3, 4), dtype)
    x[1, 2] = np.nan
    labels = Tensor([0, 1, 2])
    ones = Tensor(np.ones(4, dtype))
    losses = ops.cross_entropy(Tensor(x), labels, reduction="none")
    for found in (ops.softmax(Tensor(x)), ops.log_softmax(Tensor(x)), ops.layer_norm(Tensor(x), ones, ones), losses):
        rows = np.isnan(found.numpy()).reshape(3, -1).any(1)
        np.testing.assert_array_equal(rows, [False, True, False])
    assert np.isnan(ops.max_pool2d(Tensor(x.reshape(1, 1, 3, 4)), (3, 2)).numpy()).tolist() == [[[[False, True]]]]
    assert np.isnan(Tensor(x).max(1).numpy()).tolist() == [False, True, False]


def test_softmax_of_huge_scores_does_not_overflow():
    x = np.array([[1e4, 1e4, -1e4]], np.float32)
    np.testing.assert_allclose(ops.softmax(Tensor(x)).numpy(), [[0.5, 0.5, 0.0]])
    np.testing.assert_allclose(ops.cross_entropy(Tensor(x), Tensor([2])).item(), 2e4, rtol=1e-4)
    assert ops.bce_with_logits(Tensor([1e4]), Tensor([0.0])).item() == pytest.approx(1e4)
    np.testing.assert_allclose(ops.softplus(Tensor([1e4, -1e4])).numpy(), [1e4, 0.0])


def test_a_row_of_infinities_behaves_as_the_mask_it_is():
    x = np.array([[0.0, -np.inf, 0.0], [np.inf, 0.0, 0.0]], np.float32)
    found = ops.softmax(Tensor(x)).numpy()
    np.testing.assert_allclose(found[0], [0.5, 0.0, 0.5])
    assert np.isnan(found[1]).any()
