"""`recompute` inside compiled code: the same bits in less memory, from the same keys, each effect once."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, grad, nn, ops, recompute, set_seed, value_and_grad, vmap
from mindscope.framework.compiler import jit, pipeline
from mindscope.framework.compiler.passes.memory_passes import recompute as recompute_pass
from mindscope.framework.ir.verify import verify
from mindscope.framework.ir.visit import order
from mindscope.framework.specs import Spec

from tests.framework.compiler.captured import captured


def _same(fn):
    return fn


def _training(wrap, depth=5):
    """A deep residual MLP with dropout: its gradients with respect to input and weights."""
    cells = [
        nn.SequentialCell(
            *(nn.Dense(8, 32, key=Key(2 * i)), nn.GELU(), nn.Dropout(p=0.3), nn.Dense(32, 8, key=Key(2 * i + 1)))
        ).set_train()
        for i in range(depth)
    ]

    def loss(x):
        for cell in cells:
            x = x + wrap(cell)(x)
        return (x * x).sum()

    return value_and_grad(loss, 0, [p for cell in cells for p in cell.trainable_params()])


def _flat(value):
    return [y for x in value for y in _flat(x)] if isinstance(value, tuple | list) else [value.numpy()]


@pytest.mark.parametrize("mode", ["trace", "bytecode", "ast"])
def test_gradients_are_the_same_to_the_bit_with_random_masks(mode):
    x = Tensor(np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32))
    found = []
    for wrap in (_same, recompute):
        set_seed(3)
        found.append(_flat(jit(_training(wrap, 2), capture_mode=mode)(x)))
    assert len(found[0]) == len(found[1]) == 10
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_planned_memory_of_a_deep_network_falls():
    spec = Spec((256, 8), np.dtype(np.float32))
    sizes = [pipeline.compile(captured(_training(wrap), [spec])).memory_plan().size for wrap in (_same, recompute)]
    assert sizes[1] < 0.6 * sizes[0]


def _count(graph, name):
    return sum(node.applies(name) for node in order(graph))


def test_what_is_computed_again_is_only_what_the_way_back_asks_for():
    block = recompute(lambda x: ops.tanh(ops.exp(x)).sum())
    spec = Spec((4,), np.dtype(np.float64))
    graph = pipeline.optimize(captured(value_and_grad(lambda x: block(x) ** 2), [spec]), check=verify)
    assert [_count(graph, name) for name in ("exp", "tanh", "sum", "segment", "depend")] == [2, 2, 1, 0, 1]
    assert _count(recompute_pass(graph), "exp") == 2


def test_where_nothing_stands_between_both_ways_nothing_is_computed_again():
    block = recompute(lambda x: ops.tanh(ops.exp(x)).sum())
    graph = pipeline.optimize(captured(grad(lambda x: block(x) * 2.0), [Spec((4,), np.dtype(np.float64))]))
    assert [_count(graph, name) for name in ("exp", "segment", "depend")] == [1, 0, 0]


def test_an_observer_is_shown_each_value_once():
    seen = []

    class Tap:
        def value(self, array):
            seen.append("value")

        def gradient(self, array):
            seen.append("gradient")

    hook = Tap()
    block = recompute(lambda x: ops.exp(ops.observe(ops.tanh(x), hook)))
    found = jit(value_and_grad(lambda x: block(x).sum()), capture_mode="trace")(Tensor(np.zeros(3)))
    assert seen == ["value", "gradient"]
    np.testing.assert_array_equal(found[1].numpy(), np.ones(3))


@pytest.mark.parametrize("fn", [lambda x: x**3, lambda x: recompute(ops.tanh)(x) * ops.exp(x)], ids=["cube", "nested"])
def test_derivatives_of_higher_order_vmap_and_two_calls(fn):
    def loss(wrap):
        return lambda x: (wrap(fn)(x) * wrap(fn)(wrap(fn)(x) * 0.1)).sum()

    x = Tensor(np.linspace(0.2, 1.0, 5))
    plain, again = loss(_same), loss(recompute)
    for change in (grad, lambda f: grad(lambda x: grad(f)(x).sum()), lambda f: vmap(grad(f))):
        expected = jit(change(plain), capture_mode="trace")(x).numpy()
        found = jit(change(again), capture_mode="trace")(x).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_backward_from_outside_and_inside_a_loop():
    block = recompute(lambda x: ops.tanh(x * 1.5))

    def looped(x):
        while x.sum() < 2.0:
            x = block(x) + 0.5
        return x.sum()

    x = Tensor(np.array([0.1, 0.2]), requires_grad=True)
    compiled = jit(looped, capture_mode="ast")
    compiled(x).backward()
    y = Tensor(np.array([0.1, 0.2]), requires_grad=True)
    looped(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-13)
