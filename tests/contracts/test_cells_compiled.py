"""One contract for every cell and every way to capture: values, gradients and state are those of eager code.

By default every cell runs once in each mode of training with one way to capture; MINDSCOPE_TEST_ALL=1 runs them all.
"""

import os
import zlib

import numpy as np
import pytest
from mindscope.framework import Tensor, nn, set_seed, value_and_grad
from mindscope.framework.compiler import jit

from tests.contracts.test_cells import CELLS, inputs_of, make

MODES = ("ast", "bytecode", "trace")
EVERY = [(name, training, mode) for name in CELLS for training in (False, True) for mode in MODES]
if not os.environ.get("MINDSCOPE_TEST_ALL"):
    EVERY = [x for x in EVERY if MODES.index(x[2]) == (zlib.crc32(x[0].encode()) + x[1]) % len(MODES)]


def leaves(out):
    return [leaf for part in out for leaf in leaves(part)] if isinstance(out, tuple) else [out]


def weighted_sum(out):
    parts = leaves(out)
    generator = np.random.default_rng(9)
    total = None
    for part in parts:
        if part.dtype.kind == "f":
            term = (part * Tensor(generator.standard_normal(part.shape))).sum()
            total = term if total is None else total + term
    return total


def course(case, training, wrap):
    """What three steps of a cell give: losses, gradients, and all that it holds afterwards."""
    set_seed(11)
    cell = make(case, training=training)
    weights = cell.trainable_params()
    seen = []

    def loss(*inputs):
        return weighted_sum(cell(*inputs))

    inputs = inputs_of(case)
    places = tuple(i for i, x in enumerate(inputs) if x.dtype.kind == "f")
    step = wrap(loss, places or None, weights)
    for _ in range(3):
        value, (of_inputs, of_weights) = step(*inputs) if places else with_none(step(*inputs))
        seen += [value, *of_inputs, *of_weights]
    state = [p.asnumpy() for p in cell.get_parameters()]
    counts = [child.calls for _, child in cell.cells_and_names() if isinstance(child, nn.Dropout)]
    return [x.numpy() for x in seen], state, counts


def with_none(result):
    value, of_weights = result
    return value, ((), of_weights)


def assert_equal(found, expected):
    for a, b in zip(found[:2], expected[:2], strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    assert found[2] == expected[2]


def eager(loss, places, weights):
    return value_and_grad(loss, places, weights)


@pytest.mark.parametrize(("name", "training", "mode"), EVERY)
def test_a_compiled_step_gives_values_gradients_and_state_of_an_eager_one(name, training, mode):
    case = CELLS[name]
    expected = course(case, training, eager)
    inside = course(case, training, lambda *how: jit(value_and_grad(*how), capture_mode=mode))
    assert_equal(inside, expected)
    outside = course(case, training, lambda loss, *how: value_and_grad(jit(loss, capture_mode=mode), *how))
    assert_equal(outside, expected)
