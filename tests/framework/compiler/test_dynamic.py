"""`jit(dynamic=True)`: one capture for many lengths, guarded by what was assumed of them; always what Python gives."""

import numpy as np
import pytest
from mindscope.framework import Tensor, grad, nn, ops
from mindscope.framework.compiler import jit
from mindscope.framework.compiler.capture import trace
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.jit import DynamicCapture
from mindscope.framework.compiler.signature import Signature
from mindscope.framework.errors import ShapeError
from mindscope.framework.ir.verify import verify
from mindscope.framework.random import Key

MODES = ("trace", "ast")


def tensor(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("mode", MODES)
def test_python_runs_once_for_all_lengths(mode):
    def mean_of_squares(x):
        return (x * x).mean(0).reshape(-1, 1)

    compiled = jit(mean_of_squares, capture_mode=mode, dynamic=True)
    for rows, columns in ((3, 4), (5, 4), (7, 2), (2, 9)):
        x = tensor(rows, columns)
        np.testing.assert_allclose(compiled(x).numpy(), (x.numpy() ** 2).mean(0)[:, None], rtol=1e-12)
    assert len(compiled.explain()) == 1


def test_lengths_of_one_are_special():
    compiled = jit(lambda x, y: x + y, capture_mode="trace", dynamic=True)
    for first, second in (((3, 4), (3, 4)), ((3, 1), (3, 4)), ((5, 1), (5, 7)), ((5, 7), (5, 7))):
        x, y = tensor(*first), tensor(*second)
        np.testing.assert_array_equal(compiled(x, y).numpy(), x.numpy() + y.numpy())
    assert len(compiled.explain()) == 2


@pytest.mark.parametrize("mode", MODES)
def test_what_is_asked_of_a_length_is_guarded(mode):
    def halves(x):
        if x.shape[0] % 2 == 0:
            return x[: x.shape[0] // 2] + x[x.shape[0] // 2 :]
        if x.shape[0] > 5:
            return x * 10.0
        return -x

    compiled = jit(halves, capture_mode=mode, dynamic=True)
    for rows in (4, 6, 3, 5, 7, 9, 8):
        x = tensor(rows, 3)
        np.testing.assert_array_equal(compiled(x).numpy(), halves(x).numpy())
    assert len(compiled.explain()) <= 4


def test_a_network_is_captured_once_and_trains_for_every_batch():
    net = nn.SequentialCell(nn.Dense(6, 16, key=Key(1)), nn.ReLU(), nn.LayerNorm(16), nn.Dense(16, 10, key=Key(2)))
    weights = net.trainable_params()

    def loss(x, y):
        return ops.cross_entropy(net(x), y)

    compiled = jit(loss, capture_mode="trace", dynamic=True)
    for batch in (4, 7, 3):
        x = Tensor(np.random.default_rng(batch).normal(size=(batch, 6)).astype(np.float32))
        y = Tensor(np.arange(batch) % 10)
        found, expected = (grad(fn, None, weights)(x, y) for fn in (compiled, loss))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert len(compiled.explain()) == 1


def test_lengths_that_agree_by_chance_cost_one_more_capture():
    net = nn.Dense(6, 2, key=Key(0))
    compiled = jit(lambda x: net(x), capture_mode="trace", dynamic=True)
    for batch in (6, 5, 7, 6):
        x = Tensor(np.ones((batch, 6), np.float32))
        np.testing.assert_allclose(compiled(x).numpy(), net(x).numpy(), rtol=1e-6)
    assert len(compiled.explain()) == 2


def test_state_outside_is_guarded_for_all_lengths_too():
    class Scaled(nn.Cell):
        def __init__(self):
            super().__init__()
            self.factor = 2.0

        def construct(self, x):
            return x * self.factor

    cell = Scaled()
    compiled = jit(cell, capture_mode="trace", dynamic=True)
    assert compiled(tensor(3)).tolist() == (tensor(3) * 2.0).tolist()
    cell.factor = 3.0
    for rows in (3, 5):
        assert compiled(tensor(rows)).tolist() == (tensor(rows) * 3.0).tolist()


def test_code_that_needs_numbers_for_lengths_is_captured_for_each():
    compiled = jit(lambda x: x * (x.shape[0] ** 0.5), capture_mode="trace", dynamic=True)
    for rows in (4, 9, 4):
        assert compiled(tensor(rows)).tolist() == (tensor(rows) * rows**0.5).tolist()
    assert len(compiled.explain()) == 2


def test_an_error_is_told_with_the_lengths_at_hand():
    compiled = jit(lambda x, y: x + y, capture_mode="trace", dynamic=True)
    with pytest.raises(ShapeError, match=r"\(3,\).*\(4,\)"):
        compiled(tensor(3), tensor(4))


def test_the_graph_for_all_lengths_is_verified_and_evaluates_bound():
    general = DynamicCapture(lambda signature: trace(lambda x: x.sum(0) / x.shape[0], signature))
    x = tensor(4, 3)
    signature, arrays = Signature.of((x,), {})
    captured, is_new = general(signature, (True, False))
    assert is_new
    verify(general.graphs()[0])
    assert "n0" in str(general.graphs()[0].parameters[0].type)
    np.testing.assert_allclose(evaluate(verify(captured.graph), arrays)[0], x.numpy().mean(0), rtol=1e-12)


def test_a_loop_over_rows_is_one_graph_for_all_lengths():
    def positive_rows(x):
        total, count = x[0] * 0, 0
        for row in x:
            if row.sum() > 0:
                total = total + row
                count += 1
        return total, count

    compiled = jit(positive_rows, dynamic=True)
    for rows in (3, 5, 7, 4):
        x = tensor(rows, 2, seed=rows)
        (found, count), (expected, number) = compiled(x), positive_rows(x)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
        assert int(count) == number
    assert len(compiled.explain()) == 1
