"""XLA: each translation equals the engine's own evaluation; compiled graphs equal the reference evaluator."""

import os
from random import Random

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs JAX (extra 'xla')")

from mindscope.framework import PRIMITIVES, Key, Tensor, grad, nn, ops, random, value_and_grad  # noqa: E402
from mindscope.framework.backends.xla_backend import compile_graph  # noqa: E402
from mindscope.framework.compiler import graph_evaluator  # noqa: E402
from mindscope.framework.compiler.jit import jit  # noqa: E402
from mindscope.framework.errors import EngineError  # noqa: E402
from mindscope.framework.xla import TRANSLATIONS, apply  # noqa: E402
from mindscope.framework.xla.translation_table import words_of  # noqa: E402

from tests.contracts.primitive_cases import CASES  # noqa: E402
from tests.framework.compiler import graphs  # noqa: E402

#: Run on the host: draws of NumPy's generators, effects, factors whose signs are a choice, functions of Python.
ON_HOST = {
    "custom_call", "eigh", "exponential", "gamma", "gate", "gru", "gru_gradient", "histogram", "lstm", "lstm_gradient",
    "normal", "observe", "observe_gradient", "permutation", "poisson", "qr", "randint", "rnn", "rnn_gradient", "show",
    "svd", "uniform",
}  # fmt: skip
#: Their shape depends on values.
IMPOSSIBLE = {"nonzero", "unique"}

_ALL = os.environ.get("MINDSCOPE_TEST_ALL")
# Every case costs a compilation: by default the first of each primitive and a seeded sample of the others.
_OTHERS = Random(20240229)
_EVERY = [
    (name, i)
    for name in sorted(TRANSLATIONS)
    for i in range(len(CASES.get(name, [])))
    if i == 0 or _ALL or _OTHERS.random() < 0.1
]


def test_only_the_listed_primitives_run_on_the_host():
    assert sorted(set(PRIMITIVES) - set(TRANSLATIONS) - IMPOSSIBLE) == sorted(ON_HOST & set(PRIMITIVES))
    assert sorted(set(TRANSLATIONS) - set(PRIMITIVES)) == []


def is_masked(case):
    return any(np.asarray(x).dtype.kind == "b" for x in case.args[1:])


@pytest.mark.parametrize(("name", "number"), _EVERY)
def test_a_translation_agrees_with_the_engine(name, number):
    case = CASES[name][number]
    if name in ("getitem", "put") and is_masked(case):
        pytest.skip("a mask as index has a shape that depends on values")
    args = [words_of(x) if isinstance(x, Key) else x for x in case.args]
    with jax.enable_x64(True):
        found = apply(PRIMITIVES[name], tuple(args), case.attributes)
    expected = PRIMITIVES[name](
        *(Tensor(x) if isinstance(x, np.ndarray | np.generic) else x for x in case.args), **case.attributes
    )
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for y, wanted in pairs:
        np.testing.assert_allclose(np.asarray(y), wanted.numpy(), rtol=max(case.rtol, 1e-9), atol=1e-9)
        assert y.dtype == wanted.dtype


X = np.random.default_rng(6).normal(size=(4, 6))


def compiled(fn, **how):
    return jit(fn, capture_mode="trace", backend="xla", **how)


def test_a_compiled_function_equals_the_eager_one():
    def fn(x):
        return {"y": ops.softmax(ops.tanh(x @ x.T)), "total": (x.sum(), x[1:, ::2])}

    found, expected = compiled(fn)(Tensor(X)), fn(Tensor(X))
    np.testing.assert_allclose(found["y"].numpy(), expected["y"].numpy(), rtol=1e-12)
    np.testing.assert_allclose(found["total"][1].numpy(), expected["total"][1].numpy(), rtol=1e-12)


def test_gradients_of_a_network_equal_the_eager_ones():
    random.set_seed(0)
    net = nn.SequentialCell(nn.Dense(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Dense(8, 3))
    labels = Tensor(np.array([0, 2, 1, 1]))
    x = Tensor(X.astype(np.float32))
    both = value_and_grad(lambda x: ops.cross_entropy(net(x), labels), 0, net.trainable_params())
    value, (of_x, of_weights) = compiled(both)(x)
    wanted, (by_x, by_weights) = both(x)
    np.testing.assert_allclose(float(value), float(wanted), rtol=1e-5)
    for g, e in zip((of_x, *of_weights), (by_x, *by_weights), strict=True):
        np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=1e-3, atol=1e-6)
        g.numpy()[...] = 0.0  # what comes back belongs to the caller


def test_large_results_belong_to_the_caller_also_where_xla_shares_memory():
    x = Tensor(np.ones((200, 200)))
    first, again, same = compiled(lambda x: (x + 1.0, x + 1.0, ops.identity(x)))(x)
    for y in (first, again, same):
        y.numpy()[...] = 7.0
        assert (x.numpy() == 1.0).all()
    first.numpy()[...] = 5.0
    assert (again.numpy() == 7.0).all()
    assert (same.numpy() == 7.0).all()


def test_weights_are_read_anew_at_every_run():
    net = nn.Dense(6, 2)
    step = compiled(net)
    x = Tensor(X.astype(np.float32))
    for value in (0.0, 1.0):
        net.weight.set_data(np.full((2, 6), value, np.float32))
        np.testing.assert_allclose(step(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_weights_assigned_inside_are_overwritten():
    norm = nn.BatchNorm1d(6).set_train()
    other = nn.BatchNorm1d(6).set_train()
    x = Tensor(X.astype(np.float32))
    np.testing.assert_allclose(compiled(norm)(x).numpy(), other(x).numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(norm.running_mean.numpy(), other.running_mean.numpy(), rtol=1e-5, atol=1e-7)


def test_dropout_draws_the_same_mask_as_the_engine():
    cell = nn.Dropout(0.5).set_train()
    x = Tensor(np.ones((8, 8), np.float32))
    random.set_seed(3)
    expected = [cell(x).numpy() for _ in range(2)]
    random.set_seed(3)
    step = compiled(cell)
    np.testing.assert_array_equal(step(x).numpy(), expected[0])
    np.testing.assert_array_equal(step(x).numpy(), expected[1])


def test_what_has_no_translation_runs_on_the_host_with_one_warning():
    with pytest.warns(RuntimeWarning, match="'eigh' has no translation to XLA"):
        found = compiled(lambda x: ops.eigh(x @ x.T)[0])(Tensor(X))
    np.testing.assert_allclose(found.numpy(), np.linalg.eigvalsh(X @ X.T), atol=1e-10)


def test_the_gradient_of_a_compiled_function_is_compiled_too():
    fn = compiled(lambda x: (ops.exp(x) * ops.sin(x)).sum())
    np.testing.assert_allclose(grad(fn)(Tensor(X)).numpy(), np.exp(X) * (np.sin(X) + np.cos(X)), rtol=1e-12)


def test_a_loop_over_tensors_is_compiled():
    graph = graphs.loop_graph(lambda g, i, x: graphs.op(g, "add", graphs.op(g, "multiply", x, 0.5), 1.0), graphs.F64)
    run = compile_graph(graph)
    for turns in (0, 1, 7):
        arguments = [np.array(turns), np.array(3.0)]
        np.testing.assert_allclose(run(arguments), graph_evaluator.evaluate(graph, list(arguments)), rtol=1e-15)


def test_a_recursion_that_is_no_loop_is_named():
    with pytest.raises(EngineError, match="the recursion of 'deep' is no loop"):
        compile_graph(graphs.recursion_graph())([np.array(3), np.array(1.0)])
