"""Observers in compiled functions: what taps see is what hooks see in eager code, and no bit of a loss changes."""

import numpy as np
import pytest
from mindscope.framework import Key, Tensor, nn, value_and_grad
from mindscope.framework.compiler import jit, observe_cells
from mindscope.framework.compiler.jit import Compiled
from mindscope.framework.compiler.observers import OBSERVERS


class Recorder:
    def __init__(self, seen, name):
        self.seen, self.name = seen, name

    def value(self, array):
        self.seen.append((self.name, "value", array.copy()))

    def gradient(self, array):
        self.seen.append((self.name, "gradient", array.copy()))


def network():
    cells = nn.Dense(5, 6, key=Key(0), dtype=np.float64), nn.Tanh(), nn.Dense(6, 3, key=Key(1), dtype=np.float64)
    return nn.SequentialCell(*cells)


MODE = ["trace"]


@pytest.fixture(params=["ast", "bytecode", "trace"], autouse=True)
def mode(request):
    MODE[0] = request.param


def jit_of_grad(net):
    return jit(value_and_grad(lambda x: (net(x) ** 2).sum(), None, net.trainable_params()), capture_mode=MODE[0])


def grad_of_jit(net):
    loss = jit(lambda x: (net(x) ** 2).sum(), capture_mode=MODE[0])
    return value_and_grad(loss, None, net.trainable_params())


X = Tensor(np.random.default_rng(0).standard_normal((4, 5)))
both_orders = pytest.mark.parametrize("write", [jit_of_grad, grad_of_jit])


def observed(seen, *sites):
    return observe_cells(lambda site, cell: site in sites, lambda site, cell, call, index: Recorder(seen, site))


@both_orders
def test_taps_see_activations_and_their_gradients_and_change_no_bit(write):
    net, seen = network(), []
    step = write(net)
    before = step(X)
    with observed(seen, "1"):
        during = step(X)
    after = step(X)
    for other in (during, after):
        assert other[0].numpy().tobytes() == before[0].numpy().tobytes()
        for a, b in zip(other[1], before[1], strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()
    hidden = net[1](net[0](X))
    output = net[2](hidden)
    expected = {"value": hidden.numpy(), "gradient": 2 * output.numpy() @ net[2].weight.numpy()}
    assert [kind for _, kind, _ in seen] == ["value", "gradient"]
    for _, kind, array in seen:
        np.testing.assert_allclose(array, expected[kind], rtol=1e-12)


@both_orders
def test_forty_cycles_leave_no_trace(write):
    net, seen = network(), []
    step = write(net)
    step(X)
    for cycle in range(40):
        with observed(seen, "0", "2"):
            step(X)
        assert len(seen) == 4 * (cycle + 1)
    step(X)
    assert len(seen) == 160
    assert not OBSERVERS
    made = (step if isinstance(step, Compiled) else step.__wrapped__)._last
    assert len(made._programs) + len(made._functions) == 2  # with the last observer and without
    assert made.captured.graph is not None


def test_two_observers_see_the_same_and_calls_are_numbered():
    net, first, second = nn.Tanh(), [], []
    twice = jit(lambda x: net(net(x)), capture_mode=MODE[0])
    calls = []
    one = observe_cells(lambda site, cell: cell is net, lambda *place: calls.append(place[2:]) or Recorder(first, "a"))
    other = observe_cells(lambda site, cell: cell is net, lambda *place: Recorder(second, "b"))
    twice(X)
    one.remove()
    twice(X)
    other.remove()
    assert sorted(calls) == [(0, 0), (1, 0)]
    assert len(first) == 2
    assert len(second) == 4
    np.testing.assert_array_equal(first[1][2], second[1][2])


def test_functions_that_are_not_selected_are_not_changed():
    net, seen = network(), []
    step = jit_of_grad(net)
    with observed(seen, "no such site"):
        step(X)
    assert not seen
