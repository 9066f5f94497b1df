"""Transforms inside compiled functions equal the eager ones to 1e-12, in every capture mode."""

import numpy as np
import pytest
from mindscope.framework import (
    Tensor,
    custom_vjp,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    ops,
    random,
    recompute,
    vjp,
    vmap,
)
from mindscope.framework.compiler.jit import jit

X = np.random.default_rng(0).normal(size=(4, 3))


def scalar(x):
    return (ops.exp(x * x[0]) * ops.sin(x)).sum()


@custom_vjp
def cube(x):
    return x * x * x


cube.defvjp(lambda x: (x * x * x, x), lambda x, g: (g * x * x * 30.0,))

CALLS = {
    "hessian": lambda x: hessian(scalar)(x[0]),
    "jacrev": lambda x: jacrev(lambda row: ops.softmax(row))(x[0]),
    "jacfwd": lambda x: jacfwd(lambda row: ops.softmax(row))(x[0]),
    "jvp": lambda x: jvp(scalar, (x[0],), (x[1],))[1],
    "vjp": lambda x: vjp(ops.tanh, x)[1](x)[0],
    "linearize": lambda x: linearize(ops.tanh, x)[1](x),
    "vmap of grad": lambda x: vmap(grad(scalar))(x),
    "grad of vmap": lambda x: grad(lambda x: vmap(scalar)(x).sum())(x),
    "custom_vjp": lambda x: grad(lambda x: cube(x).sum())(x),
    "recompute": lambda x: grad(recompute(scalar))(x[0]),
    "grad of grad": lambda x: grad(lambda x: (grad(scalar)(x) * x).sum())(x[0]),
}


@pytest.mark.parametrize("mode", ["trace", "ast", "bytecode"])
@pytest.mark.parametrize("name", CALLS)
def test_compiled_equals_eager(name, mode):
    expected = CALLS[name](Tensor(X)).numpy()
    found = jit(CALLS[name], capture_mode=mode)(Tensor(X)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["trace", "ast", "bytecode"])
def test_keys_differ_from_sample_to_sample_and_from_run_to_run(mode):
    def drop(x):
        return vmap(lambda row: ops.dropout(row, random.next_key(), 0.5), randomness="different")(x)

    run = jit(drop, capture_mode=mode)
    x = Tensor(np.ones((4, 64)))
    rows = {row.tobytes() for _ in range(2) for row in run(x).numpy()}
    assert len(rows) == 8
