"""What a compiled graph promises: results of its own, gradients where wanted, weights in place, errors with a line."""

import numpy as np
import pytest
from mindscope.framework import Key, Parameter, Tensor, nn, ops, value_and_grad
from mindscope.framework.backends import BACKENDS, backend_named, register_backend
from mindscope.framework.backends.numpy.memory_plan import Buffer, plan_memory
from mindscope.framework.compiler import graph_evaluator, jit, pipeline
from mindscope.framework.compiler.capture import trace
from mindscope.framework.compiler.signature import Signature
from mindscope.framework.errors import EngineError, NameTaken
from mindscope.framework.specs import Spec

from tests.framework.compiler.captured import captured


def _vector(n, dtype=np.float64):
    return Spec((n,), np.dtype(dtype))


def test_results_are_the_callers_and_outlive_the_next_call():
    run = pipeline.compile(captured(lambda x: ops.tanh(x) * 2.0, [_vector(100)]))
    first = run([np.ones(100)])
    kept = first.copy()
    run([np.zeros(100)])
    np.testing.assert_array_equal(first, kept)
    first[...] = 0.0
    np.testing.assert_array_equal(run([np.ones(100)]), kept)


def test_what_is_returned_untouched_is_a_copy():
    run = pipeline.compile(captured(lambda x: (x, x.reshape(2, 2), x), [_vector(4)]))
    x = np.arange(4.0)
    found = run([x])
    for i, y in enumerate(found):
        assert not any(np.shares_memory(y, z) for z in (x, *found[i + 1 :]))
        np.testing.assert_array_equal(y.reshape(4), x)


def test_outputs_are_written_where_they_are_wanted():
    given = np.empty(4)
    graph = captured(lambda x: (x * 2.0, x + 1.0), [_vector(4)])
    run = pipeline.compile(graph, given={1: given})
    found = run([np.arange(4.0)])
    assert found[1] is given
    np.testing.assert_array_equal(given, np.arange(4.0) + 1.0)
    assert found[0] is not run([np.arange(4.0)])[0]


def test_arguments_may_have_any_strides():
    x = np.arange(12.0).reshape(3, 4).T
    run = pipeline.compile(captured(lambda x: ops.relu(x * 2.0) + x.sum(0), [Spec((4, 3), np.dtype(np.float64))]))
    np.testing.assert_array_equal(run([x]), x * 2.0 + x.sum(0))


def test_assigned_weights_change_after_their_old_values_were_read():
    a, b = Parameter(np.arange(3.0)), Parameter(np.ones(3))

    def swap(x):
        old_a, old_b = a * 1.0, b
        a.set_data(old_b + x)
        b.set_data(old_a)
        return a + b * 10.0

    found = jit(swap, capture_mode="trace")(Tensor(np.zeros(3)))
    np.testing.assert_array_equal(a.numpy(), np.ones(3))
    np.testing.assert_array_equal(b.numpy(), np.arange(3.0))
    np.testing.assert_array_equal(found.numpy(), 1.0 + 10.0 * np.arange(3.0))


def test_a_compiled_training_is_the_eager_one():
    rng = np.random.default_rng(0)
    x, y = Tensor(rng.normal(size=(8, 1, 8, 8))), Tensor(rng.integers(0, 3, 8))

    def train(compile):
        net = nn.SequentialCell(
            *(nn.Conv2d(1, 4, 3, key=Key(0), dtype=np.float64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Dense(64, 16, key=Key(1), dtype=np.float64), nn.GELU(), nn.Dense(16, 3, key=Key(2), dtype=np.float64)),
        ).set_train()
        optimizer = nn.Adam(net.trainable_params(), 1e-2)
        differentiated = value_and_grad(lambda x, y: ops.cross_entropy(net(x), y), None, net.trainable_params())

        def step(x, y):
            loss, gradients = differentiated(x, y)
            optimizer(gradients)
            return loss

        run = jit(step, capture_mode="trace") if compile else step
        return [run(x, y).item() for _ in range(6)], [p.numpy() for p in net.trainable_params()]

    losses, weights = train(False)
    found, ours = train(True)
    np.testing.assert_allclose(found, losses, rtol=1e-11)
    for a, b in zip(ours, weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert found[-1] < found[0]


def test_an_error_names_the_primitive_and_the_line_of_the_user():
    table = Tensor(np.ones((4, 2)))
    run = jit(lambda i: ops.gather(table, i) * 2.0, capture_mode="trace")
    run(Tensor(np.array([0, 3])))
    with pytest.raises(EngineError, match=r"'gather'.*test_numpy_executable\.py:\d+"):
        run(Tensor(np.array([0, 9])))
    np.testing.assert_array_equal(run(Tensor(np.array([1]))).numpy(), [[2.0, 2.0]])


def test_the_memory_plan_reuses_what_is_dead_and_prints_itself():
    def chain(x):
        for _ in range(6):
            x = ops.matmul(x, x)
        return x

    run = pipeline.compile(captured(chain, [Spec((32, 32), np.dtype(np.float64))]))
    plan = run.memory_plan()
    assert plan.size == 2 * 32 * 32 * 8 < plan.total
    assert "float64[32, 32] matmul" in str(plan)


def test_buffers_that_live_together_never_overlap():
    rng = np.random.default_rng(0)
    buffers = []
    for i in range(300):
        first = int(rng.integers(0, 200))
        nbytes = int(rng.integers(1, 5000))
        buffers.append(Buffer(f"b{i}", (nbytes,), "uint8", nbytes, first, first + int(rng.integers(0, 40))))
    plan = plan_memory(buffers, 0)
    for i, a in enumerate(buffers):
        assert a.offset % 64 == 0
        assert a.offset + a.nbytes <= plan.size
        for b in buffers[:i]:
            if a.first <= b.last and b.first <= a.last:
                assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
    busiest = max(sum(b.nbytes for b in buffers if b.first <= step <= b.last) for step in range(240))
    assert busiest <= plan.size <= 1.5 * busiest


def test_a_backend_of_the_user_gets_the_optimised_graph():
    seen = []

    @register_backend("noting")
    def noting(graph):
        seen.append(graph)
        return lambda arguments: graph_evaluator.evaluate(graph, list(arguments))

    try:
        with pytest.raises(NameTaken, match="noting"):
            register_backend("noting")(noting)
        run = jit(lambda x: ops.negative(-x) + 1.0, capture_mode="trace", backend="noting")
        np.testing.assert_array_equal(run(Tensor(np.ones(2))).numpy(), [2.0, 2.0])
        assert len(seen) == 1
    finally:
        del BACKENDS["noting"]
    with pytest.raises(KeyError, match="did you mean 'numpy'"):
        backend_named("numpi")


def test_a_graph_made_for_one_set_of_weights_runs_with_others():
    weight = Parameter(np.ones((3, 3)))
    signature, arrays = Signature.of((Tensor(np.ones((2, 3))),), {})
    run = pipeline.compile(trace(lambda x: ops.matmul(x, weight.T), signature).graph)
    np.testing.assert_array_equal(run([*arrays, weight.numpy()])[0], 3.0)
    np.testing.assert_array_equal(run([*arrays, weight.numpy() * 2.0])[0], 6.0)
