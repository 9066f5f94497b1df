"""What code reads outside, what it changes there, and gradients through its control flow."""

from time import process_time

import numpy as np
import pytest
from mindscope.framework import Parameter, Tensor, grad, nn, no_grad, ops, set_seed, value_and_grad
from mindscope.framework.compiler import jit

from tests.framework.compiler.source.cases import CASES, t
from tests.framework.compiler.source.running import Compiled, assert_equal, run

SETTINGS = {"scale": 2.0}
FACTOR = 3.0


class Counting(nn.Cell):
    """Counts calls in Python and in a weight; its layers are in a list."""

    def __init__(self):
        super().__init__()
        self.layers = [nn.Dense(3, 3, dtype=np.float64) for _ in range(2)]
        for number, layer in enumerate(self.layers):
            self.insert_child_to_cell(f"layer{number}", layer)
        self.total = Parameter(np.zeros(()), requires_grad=False)
        self.calls = 0
        self.scale = 0.5

    def construct(self, x):
        for layer in self.layers:
            x = ops.tanh(layer(x))
            if x.sum() > 0:
                x = x * self.scale
                self.total.set_data(self.total + x.sum())
                self.calls += 1
            else:
                self.calls += 10
        return (x * x).sum()


def rows():
    return [Tensor(row) for row in np.random.default_rng(3).normal(size=(6, 2, 3))]


def copies():
    first, second = Counting(), Counting()
    for a, b in zip(first.get_parameters(), second.get_parameters(), strict=True):
        b.set_data(a.numpy())
    return first, second


def test_state_of_a_cell_changes_at_every_run_as_in_eager_code():
    eager, compiled = copies()
    step = jit(compiled)
    for x in rows():
        assert_equal(step(x), eager(x))
        assert compiled.calls == eager.calls
        assert_equal(compiled.total, eager.total)
    assert len({net.calls for net in (eager, compiled)}) == 1


def test_a_changed_attribute_is_seen():
    eager, compiled = copies()
    step = jit(compiled)
    for scale in (0.5, 0.25, -2.0, 0.5):
        eager.scale = compiled.scale = scale
        for x in rows()[:2]:
            assert_equal(step(x), eager(x))


def test_what_is_read_outside_is_guarded(monkeypatch):
    def reading(x):
        return x * SETTINGS["scale"] * FACTOR + WEIGHT

    compiled = Compiled(reading, t(1.0))
    assert compiled.holds()
    monkeypatch.setitem(SETTINGS, "scale", 5.0)
    assert not compiled.holds()
    monkeypatch.undo()
    assert compiled.holds()
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert not compiled.holds()


WEIGHT = Parameter(np.array([1.0]))


def test_a_closure_is_guarded():
    factor = 2.0

    def closing(x):
        return x * factor

    compiled = Compiled(closing, t(1.0))
    assert compiled.holds()
    factor = 3.0
    assert not compiled.holds()


def test_a_weight_written_in_a_loop_is_read_again_in_it():
    weight = Parameter(np.array(1.0))

    def doubling(x):
        for row in x:
            if row > 0:
                weight.set_data(weight * 2)
            else:
                weight.set_data(weight + row)
        return weight * 1.0

    compiled = Compiled(doubling, t(1.0, -3.0, 2.0))
    assert float(compiled(t(1.0, -3.0, 2.0))) == -2.0
    assert float(weight) == -2.0
    assert float(compiled(t(-1.0, 1.0, 1.0))) == -12.0


DIFFERENTIABLE = [
    "conditional_expression",
    "elif_chain",
    "early_returns",
    "nested_while",
    "while_true_with_return",
    "for_over_rows",
    "for_with_continue",
    "for_zip",
    "static_loop_with_traced_break",
    "loop_changes_a_tuple",
    "loop_changes_items_of_a_list",
    "fibonacci_of_tensors",
    "closures",
    "deep_returns",
    "bubble_sort",
    "with_blocks",
]


def first_tensor(value):
    while not isinstance(value, Tensor):
        value = next(part for part in value if isinstance(part, Tensor | tuple | list))
    return value


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_through_control_flow_are_those_of_the_tape(name):
    fn = CASES[name][0]

    def loss(x):
        y = first_tensor(fn(x))
        return (y * y).sum()

    def second(x):
        return (grad(loss)(x) * x).sum()

    for numbers in ((1.0, 2.0, 3.0), (-1.0, -2.0, 0.5), (4.0, 0.25, -0.5)):
        x = t(*numbers)
        expected = grad(loss)(x)
        assert_equal(grad(jit(loss))(x), expected)
        assert_equal(run(grad(loss), x), expected)
        assert_equal(jit(grad(loss))(x), expected)
        assert_equal(run(lambda x: value_and_grad(loss)(x), x), value_and_grad(loss)(x))
        assert_equal(jit(grad(second))(x), grad(second)(x))


def test_gradients_of_weights_and_state_through_control_flow():
    eager, compiled = copies()
    step = jit(value_and_grad(compiled, None, compiled.trainable_params()))
    plain_step = value_and_grad(eager, None, eager.trainable_params())
    for x in rows():
        assert_equal(step(x), plain_step(x))
        assert compiled.calls == eager.calls
        assert_equal(compiled.total, eager.total)


def test_no_gradient_flows_out_of_no_grad():
    def partly(x):
        with no_grad():
            y = x * 3 if x.sum() > 0 else x
        return (x * y).sum()

    x = t(1.0, 2.0)
    assert_equal(grad(jit(partly))(x), grad(partly)(x))
    assert_equal(jit(grad(partly))(x), grad(partly)(x))


def test_random_numbers_in_a_loop_are_those_of_eager_code():
    dropout = nn.Dropout(0.5).set_train()

    def loop(x):
        for row in x:
            if row > 0.2:
                x = x + dropout(x)
        return x

    x = t(1.0, 0.1, 0.5, 2.0)
    compiled = jit(loop)
    for seed in range(3):
        set_seed(seed)
        expected = loop(x)
        set_seed(seed)
        assert_equal(compiled(x), expected)


def test_twelve_layers_of_a_transformer_are_captured_within_two_seconds():
    net = nn.SequentialCell([nn.TransformerBlock(16, 2) for _ in range(12)])
    x = Tensor(np.ones((1, 4, 16), np.float32))
    start = process_time()
    compiled = Compiled(lambda x: (net(x) ** 2).mean(), x)
    assert process_time() - start < 2.0
    np.testing.assert_allclose(float(compiled(x)), float((net(x) ** 2).mean()), rtol=1e-6)
