"""One capture for all lengths: gradients of networks, bound to lengths, are those of networks captured for them."""

import numpy as np
import pytest
from mindscope.framework import Dim, nn, ops
from mindscope.framework.compiler.graph_evaluator import evaluate
from mindscope.framework.compiler.graph_gradient import grad_graph
from mindscope.framework.compiler.infer import infer
from mindscope.framework.ir import Graph, equal
from mindscope.framework.ir.clone import bind
from mindscope.framework.ir.verify import verify
from mindscope.framework.mindir import graph_of
from mindscope.framework.random import Key
from mindscope.framework.specs import Spec
from mindscope.framework.symbolic import substitute

from tests.framework.compiler.graphs import I64 as I64_SCALAR
from tests.framework.compiler.graphs import loop_graph, op

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
BATCH, LENGTH = Dim("batch"), Dim("length")


def perceptron():
    layers = nn.Dense(6, 16, key=Key(1)), nn.ReLU(), nn.LayerNorm(16), nn.Dense(16, 10, key=Key(2))
    return nn.SequentialCell(*layers), [Spec((BATCH, 6), F32), Spec((BATCH,), I64)]


def convolutions():
    net = nn.SequentialCell(
        nn.Conv2d(1, 4, 3, key=Key(1)), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten(),
        nn.Dense(4 * 6 * 6, 10, key=Key(2)),
    )  # fmt: skip
    return net, [Spec((BATCH, 1, 12, 12), F32), Spec((BATCH,), I64)]


class Decoder(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 16, key=Key(4))
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiHeadSelfAttention(16, 4, key=Key(5))
        self.head = nn.Dense(16, 11, key=Key(6))

    def construct(self, tokens):
        x = self.embedding(tokens)
        return self.head(ops.gelu(x + self.attention(self.norm(x))))


def decoder():
    return Decoder(), [Spec((BATCH, LENGTH), I64), Spec((BATCH, LENGTH), I64)]


def _values(spec, lengths, rng):
    shape = substitute(spec.shape, lengths)
    return rng.normal(size=shape).astype(F32) if spec.dtype == F32 else rng.integers(0, 10, shape)


@pytest.mark.parametrize("make", [perceptron, convolutions, decoder])
def test_gradients_of_a_network_for_all_lengths_are_right_for_each(make):
    net, specs = make()

    def both(types):
        graph = graph_of(lambda x, y: ops.cross_entropy(net(x), y), types, capture_mode="trace")
        return graph, grad_graph(graph, range(2, len(graph.parameters)))

    graph, symbolic = both(specs)
    verify(symbolic)
    weights = [p.weight.numpy() for p in graph.weights]
    for lengths in ({"batch": 2, "length": 5}, {"batch": 3, "length": 2}):
        arrays = [_values(spec, lengths, np.random.default_rng(0)) for spec in specs]
        value, found = evaluate(verify(bind(symbolic, lengths)), [*arrays, *weights])
        fixed = both([Spec(substitute(s.shape, lengths), s.dtype) for s in specs])[1]
        expected_value, expected = evaluate(fixed, [*arrays, *weights])
        np.testing.assert_allclose(value, expected_value, rtol=1e-6)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_loop_over_tensors_of_any_length_has_a_gradient():
    vector = Spec((BATCH,), np.dtype(np.float64))
    loop = loop_graph(lambda g, i, x: op(g, "sin", op(g, "multiply", x, 1.0 / BATCH)), vector)
    graph = Graph("total")
    n, x = graph.add_parameter(I64_SCALAR, "n"), graph.add_parameter(vector, "x")
    graph.output = op(graph, "sum", graph.call(loop, n, x), axes=(0,), keepdims=False)
    both = verify(grad_graph(graph, [1]))
    assert equal(infer(both), both)
    for batch in (2, 5):
        bound = verify(bind(both, {"batch": batch}))
        start = np.linspace(0.5, 1.5, batch)
        value, (slope,) = evaluate(bound, [np.array(3), start])
        x0, derivative = start, np.ones(batch)
        for _ in range(3):
            derivative = derivative * np.cos(x0 / batch) / batch
            x0 = np.sin(x0 / batch)
        np.testing.assert_allclose(value, x0.sum(), rtol=1e-14)
        np.testing.assert_allclose(slope, derivative, rtol=1e-13)
