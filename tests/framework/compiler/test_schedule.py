"""The scheduled order: nothing missing, effects in their places, less memory, the same bits."""

import os

import numpy as np
import pytest
from mindscope.framework import Key, Parameter, Tensor, nn, ops, value_and_grad
from mindscope.framework.backends.numpy import lower
from mindscope.framework.backends.numpy import lower as lowering
from mindscope.framework.compiler import jit, pipeline
from mindscope.framework.compiler.passes.memory_passes import has_effect, schedule
from mindscope.framework.compiler.rewrite import rebuild
from mindscope.framework.ir import TupleType
from mindscope.framework.ir.visit import order
from mindscope.framework.specs import Spec

from tests.framework.compiler.captured import captured

_SEEDS = range(200 if os.environ.get("MINDSCOPE_TEST_ALL") else 5)
_MATRIX = Spec((16, 16), np.dtype(np.float64))


def _is_view(node):
    return isinstance(node.type, TupleType) or any(map(node.applies, ("reshape", "swapaxes", "make_tuple")))


def _program(seed):
    """A function whose values are many, of different sizes, and mostly used late."""

    def fn(x, w):
        rng = np.random.default_rng(seed)
        values, found = [x, w], []
        for _ in range(30):
            a, b = (values[i] for i in rng.integers(len(values), size=2))
            kind = rng.integers(4)
            values.append((ops.matmul(a, b) * 0.1, ops.tanh(a), ops.concat([a, b], 0)[8:24], a * b)[kind])
            found += [ops.exp(values[-1] * 0.01).sum(0)] if rng.random() < 0.5 else []
        return tuple(found), values[-1]

    return fn


def _peak(nodes, result):
    """Most bytes alive at once, from the definition: after each step, who is read later or returned."""
    owners = {}
    for node in nodes:
        below = [root for x in node.inputs for root in owners.get(x, ())]
        owners[node] = set(below) if _is_view(node) else {node}
    last = {}
    for place, node in enumerate(nodes):
        for x in (node, *node.inputs):
            last |= dict.fromkeys(owners.get(x, ()), place)
    last |= dict.fromkeys(owners.get(result, ()), len(nodes))
    sizes = {n: 0 if _is_view(n) else n.type.size * n.type.dtype.itemsize for n in nodes}
    return max(
        sum(sizes[n] for i, n in enumerate(nodes) if i <= place <= last.get(n, -1)) for place in range(len(nodes))
    )


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_schedule_is_an_order_of_the_same_applications(seed):
    graph = pipeline.optimize(captured(_program(seed), [_MATRIX, _MATRIX]))
    nodes = order(graph)
    found = schedule(nodes, graph.result, _is_view)
    assert sorted(map(id, found)) == sorted(map(id, nodes))
    places = {node: place for place, node in enumerate(found)}
    assert all(places[x] < places[node] for node in found for x in node.inputs if x in places)


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_scheduled_graph_gives_the_same_bits_in_no_more_memory(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(16, 16)) for _ in range(2)]
    graph = captured(_program(seed), [_MATRIX, _MATRIX])
    best = pipeline.compile(graph)
    monkeypatch.setattr(lowering, "smaller_order", lambda order, *_: order)
    own = pipeline.compile(graph)
    monkeypatch.setattr(lowering, "smaller_order", lambda order, result, view, _: schedule(order, result, view))
    scheduled = pipeline.compile(graph)
    sizes = [run.memory_plan().size + run.memory_plan().outputs for run in (best, own, scheduled)]
    assert sizes[0] == min(sizes[0], sizes[1])
    for x, y, z in zip(*(run(arrays) for run in (best, own, scheduled)), strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(z, y)


def test_gradients_are_finished_before_the_next_layer_is_pulled_back():
    net = nn.SequentialCell(*(nn.Dense(64, 64, key=Key(i)) for i in range(8)))
    step = value_and_grad(lambda x: ops.tanh(net(x)).sum(), None, net.trainable_params())
    graph = pipeline.optimize(captured(step, [Spec((512, 64), np.dtype(np.float32))]))
    nodes = order(graph)
    scheduled = _peak(schedule(nodes, graph.result, _is_view), graph.result)
    assert scheduled <= 0.7 * _peak(nodes, graph.result)


def test_effects_keep_their_order_and_what_they_see():
    seen = []

    class Tap:
        def __init__(self, name):
            self.name = name

        def value(self, array):
            seen.append((self.name, array.copy()))

        def gradient(self, array):
            seen.append((self.name, array.copy()))

    taps = [Tap(i) for i in range(6)]
    weight = Parameter(np.ones(4))

    def fn(x):
        parts = [ops.observe(ops.tanh(x[: 8 - i]) if i % 2 else x * float(i), tap) for i, tap in enumerate(taps)]
        weight.set_data(weight + parts[0][:4])
        return tuple(part.sum() for part in reversed(parts))

    graph = pipeline.optimize(captured(fn, [Spec((8,), np.dtype(np.float64))]))
    nodes = order(graph)
    effects = [node for node in nodes if has_effect(node)]
    assert len(effects) >= 6
    assert [node for node in schedule(nodes, graph.result, _is_view) if has_effect(node)] == effects
    found = jit(fn, capture_mode="trace")(Tensor(np.arange(8.0)))
    assert [name for name, _ in seen] == [node.attributes["hook"].name for node in effects if node.applies("observe")]
    np.testing.assert_array_equal(found[-1].numpy(), 0.0)


def test_a_graph_that_returns_its_argument_needs_no_order():
    graph = rebuild(captured(lambda x: x, [_MATRIX]), lambda *_: None)
    assert schedule(order(graph), graph.result, _is_view) == order(graph)


def test_a_kernel_of_a_plan_says_that_it_is_none():
    class Loop:
        class fused:  # noqa: N801 (what a loop has)
            name = "k"

    with pytest.raises(AssertionError, match="plan of k"):
        lower.no_kernel(Loop, {}, ())()
