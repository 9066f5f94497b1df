"""Random straight-line graphs: whatever is fused, folded, overwritten or shared, the values are the reference's."""

import os

import numpy as np
import pytest
from mindscope.framework import Tensor, ops
from mindscope.framework.compiler import pipeline
from mindscope.framework.compiler.capture import trace
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.signature import Signature
from mindscope.framework.ir.verify import verify

_SEEDS = range(400 if os.environ.get("MINDSCOPE_TEST_ALL") else 20)
_UNARY = [
    *(ops.negative, ops.square, ops.abs, ops.sigmoid, ops.relu, ops.gelu, ops.tanh, ops.exp),
    *(lambda x: x.T, lambda x: x.reshape(-1), lambda x: x * 1.0, lambda x: x + 0.5, lambda x: ops.stop_gradient(x)),
    *(lambda x: x.sum(0), lambda x: x.sum(), lambda x: x.sum(-1, keepdims=True), lambda x: x.mean(-1)),
    *(lambda x: x[::-1], lambda x: x[1:], lambda x: x.reshape(*x.shape, 1), lambda x: ops.softmax(x)),
]
_BINARY = [
    *(ops.add, ops.subtract, ops.multiply, ops.maximum, ops.minimum, lambda a, b: a / (ops.abs(b) + 1.0)),
    *(lambda a, b: ops.where(a > b, a, b * 0.5), lambda a, b: ops.concat([a, b], 0)),
]


def _program(seed):
    """A function of three tensors that applies operations drawn with the seed and returns some of the values."""

    def fn(*inputs):
        rng = np.random.default_rng(seed)
        values = list(inputs)
        for _ in range(24):
            a = values[rng.integers(len(values))]
            if rng.random() < 0.5:
                unary = _UNARY[rng.integers(len(_UNARY))]
                if a.ndim and min(a.shape) > 1:
                    values.append(ops.tanh(unary(a)))
                continue
            binary = _BINARY[rng.integers(len(_BINARY))]
            fitting = [
                b for b in values if b.shape == a.shape or (b.ndim == 1 and a.ndim == 2 and len(b) == a.shape[1])
            ]
            b = fitting[rng.integers(len(fitting))]
            if a.ndim and (binary is not _BINARY[-1] or b.ndim == a.ndim):
                values.append(binary(a, b) * 0.5)
            if a.ndim == 2:
                products = [b for b in values if b.ndim == 2 and b.shape[0] == a.shape[1]]
                values += [ops.tanh(ops.matmul(a, products[0]))] if products and rng.random() < 0.5 else []
        chosen = rng.choice(len(values), 3, replace=False)
        return tuple(values[i] for i in chosen), values[-1], values[-1].reshape(-1)

    return fn


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_random_graph_keeps_its_values(seed):
    rng = np.random.default_rng(1000 + seed)
    arrays = [rng.normal(size=(4, 4)), rng.normal(size=(4,)), rng.normal(size=(4, 4))]
    signature, _ = Signature.of(tuple(Tensor(x) for x in arrays), {})
    graph = trace(_program(seed), signature).graph
    expected = evaluate(graph, arrays)
    optimized = pipeline.optimize(graph, check=verify)
    run = pipeline.compile(graph)
    kept = []
    for _ in range(2):
        found = run([np.array(x) for x in arrays])
        kept.append(found)
    for result in (evaluate(optimized, arrays), *kept):  # the first result is not touched by the second call
        for x, y in zip(result, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    owners = [x for x in kept[0] if isinstance(x, np.ndarray)]
    for i, x in enumerate(owners):
        assert not any(np.shares_memory(x, y) for y in (*arrays, *owners[i + 1 :]))
