"""recompute: less is kept, everything else is equal."""

import gc
import weakref

import numpy as np
import pytest
from mindscope.framework import (
    GradientError,
    Tensor,
    grad,
    gradients,
    is_recomputing,
    nn,
    ops,
    random,
    recompute,
    value_and_grad,
    vmap,
)
from mindscope.framework.compiler.jit import jit

X = np.random.default_rng(4).normal(size=(6, 8)).astype(np.float32)


def blocks(dropout=0.3):
    random.set_seed(1)
    return [nn.SequentialCell(nn.Dense(8, 8), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(8)) for _ in range(3)]


def run(cells, wrap, x):
    for cell in cells:
        cell.set_train()
        x = wrap(cell)(x)
    return (x * x).mean()


def weights(cells):
    return [p for cell in cells for p in cell.trainable_params()]


@pytest.mark.parametrize("key", [None, random.Key(9)])
def test_gradients_are_bit_identical_with_random_masks(key):
    found = []
    for wrap in (lambda cell: cell, recompute):
        cells = blocks()
        for cell in cells:
            list(cell.name_cells().values())[2].key = key
        random.set_seed(7)
        loss = run(cells, wrap, Tensor(X))
        found.append([loss.numpy(), *(g.numpy() for g in gradients(loss, weights(cells)))])
    for plain, again in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, again)


def test_what_is_inside_is_not_kept():
    kept = []

    def watched(x):
        y = ops.exp(x)
        kept.append(weakref.ref(y.numpy()))
        return (y * y).sum()

    x = Tensor(X, requires_grad=True)
    loss = recompute(watched)(x)
    gc.collect()
    assert kept[0]() is None
    (found,) = gradients(loss, [x])
    np.testing.assert_allclose(found.numpy(), 2 * np.exp(2 * X), rtol=1e-5)
    assert len(kept) == 2


def test_the_function_runs_once_forward_and_once_back():
    seen = []

    def counted(x):
        seen.append(is_recomputing())
        return (ops.sin(x) * ops.cos(x)).sum()

    grad(recompute(counted))(Tensor(X))
    assert seen == [False, True]


def test_an_observer_is_shown_each_value_once():
    class Tap:
        values = gradients = 0

        def value(self, array):
            self.values += 1

        def gradient(self, array):
            self.gradients += 1

    hook = Tap()
    grad(recompute(lambda x: (ops.observe(x * x, hook) * x).sum()))(Tensor(X))
    assert (hook.values, hook.gradients) == (1, 1)


def test_it_nests_and_goes_to_second_order():
    def cube(x):
        return recompute(lambda y: y * y)(x) * x

    x = Tensor(X.astype(np.float64))
    second = grad(lambda x: grad(lambda x: recompute(cube)(x).sum())(x).sum())(x)
    np.testing.assert_allclose(second.numpy(), 6 * x.numpy())


def test_retained_graphs_recompute_again():
    x = Tensor(X, requires_grad=True)
    loss = recompute(lambda x: (ops.exp(x) * x).sum())(x)
    first = gradients(loss, [x], retain_graph=True)[0].numpy()
    np.testing.assert_array_equal(gradients(loss, [x])[0].numpy(), first)


def test_inside_vmap_and_jit():
    x = Tensor(X.astype(np.float64))

    def loss(row):
        return (ops.exp(row) * row).sum()

    expected = grad(lambda x: loss(x))(x).numpy()
    np.testing.assert_allclose(vmap(grad(recompute(loss)))(x).numpy(), expected, rtol=1e-12)
    total = grad(lambda x: vmap(recompute(loss))(x).sum())(x)
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(jit(grad(recompute(loss)), capture_mode="trace")(x).numpy(), expected, rtol=1e-12)


def test_batch_statistics_move_once():
    norms = [nn.BatchNorm1d(8).set_train() for _ in range(2)]
    for norm, call in zip(norms, (norms[0], recompute(norms[1])), strict=True):
        value_and_grad(lambda x, call=call: (call(x) ** 3).sum(), 0, norm.trainable_params())(Tensor(X))
    for name, value in norms[0].parameters_dict().items():
        np.testing.assert_array_equal(norms[1].parameters_dict()[name].numpy(), value.numpy())


def test_a_function_that_changes_is_named():
    calls = []

    def fickle(x):
        calls.append(1)
        return (ops.exp(x) if len(calls) == 1 else ops.exp(ops.exp(x))).sum()

    with pytest.raises(GradientError, match="recompute of 'fickle' saved"):
        grad(recompute(fickle))(Tensor(X))
