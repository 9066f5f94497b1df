"""Gradients of compiled functions: in any order of `jit` and `grad`, on the tape, with hooks, with optimizers."""

import numpy as np
import pytest
from mindscope.framework import (
    GradientError,
    Key,
    Tensor,
    grad,
    nn,
    ops,
    optim,
    register_backward_start_hook,
    set_seed,
    value_and_grad,
    vmap,
)
from mindscope.framework.compiler import CaptureError, jit
from mindscope.framework.errors import ChangedTensorError, EngineError

MODE = ["trace"]


@pytest.fixture(params=["ast", "bytecode", "trace"], autouse=True)
def mode(request):
    MODE[0] = request.param
    return request.param


def traced(fn):
    return jit(fn, capture_mode=MODE[0])


def curve(x):
    return (ops.tanh(x) * x * x).sum()


X = np.linspace(-2.0, 2.0, 5)


@pytest.mark.parametrize(
    "compiled",
    [
        lambda f: grad(traced(f)),
        lambda f: traced(grad(f)),
        lambda f: traced(grad(traced(f))),
        lambda f: traced(traced(grad(f))),
    ],
    ids=["grad-jit", "jit-grad", "jit-grad-jit", "jit-jit-grad"],
)
def test_first_and_higher_derivatives_are_those_of_eager_code(compiled):
    function, expected = curve, curve
    for _ in range(3):
        function, expected = compiled(function), grad(expected)
        np.testing.assert_allclose(function(Tensor(X)).numpy(), expected(Tensor(X)).numpy(), rtol=1e-12, atol=1e-12)
        function, expected = summed(function), summed(expected)


def summed(f):
    return lambda x: (f(x) * f(x)).sum()


def test_second_derivatives_with_random_masks_use_the_masks_of_the_first_time():
    cell = nn.SequentialCell(nn.Dense(5, 4, key=Key(0), dtype=np.float64), nn.Tanh(), nn.Dropout(0.5)).set_train()

    def energy(wrap):
        inner = wrap(lambda x: (cell(x) * cell(x)).sum())
        return grad(lambda x: (grad(inner)(x) * x).sum())

    x = Tensor(X.reshape(1, 5))
    set_seed(5)
    expected = energy(lambda f: f)(x).numpy()
    set_seed(5)
    np.testing.assert_allclose(energy(traced)(x).numpy(), expected, rtol=1e-12)


def test_a_compiled_function_is_one_operation_of_the_tape():
    weight = Tensor(X, requires_grad=True)
    compiled = traced(lambda x: (x * weight, (x * 3.0).sum()))
    x = Tensor(X, requires_grad=True)
    product, total = compiled(x * 1.0)
    (product.sum() + total).backward()
    np.testing.assert_allclose(x.grad.numpy(), X + 3.0)
    np.testing.assert_allclose(weight.grad.numpy(), X)


def test_outputs_without_a_gradient_need_none():
    compiled = traced(lambda x: (x.argmax(), (x * x).detach(), x * 2.0))
    place, squares, double = compiled(Tensor(X, requires_grad=True))
    assert not place.requires_grad
    assert not squares.requires_grad
    assert double.requires_grad


def test_a_block_without_recording_stops_gradients_in_compiled_functions_too():
    from mindscope.framework import no_grad

    def half(x):
        with no_grad():
            y = x * x
        return (y * x).sum()

    for wrap in (lambda f: f, traced):
        np.testing.assert_allclose(grad(wrap(half))(Tensor(X)).numpy(), X * X)


def test_a_weight_that_changed_before_the_way_back_is_an_error():
    cell = nn.Dense(5, 1, key=Key(0), dtype=np.float64)
    loss = traced(lambda x: (cell(x) ** 2).sum())(Tensor(X.reshape(1, 5)))
    cell.weight.set_data(cell.weight.numpy() * 2.0)
    with pytest.raises(ChangedTensorError, match="changed in place"):
        loss.backward()


def test_a_second_way_back_needs_the_graph_retained():
    loss = traced(curve)(Tensor(X, requires_grad=True))
    loss.backward()
    with pytest.raises(GradientError, match="freed"):
        loss.backward()


@pytest.mark.parametrize("wrap", [lambda f: vmap(traced(f)), lambda f: traced(vmap(f))], ids=["vmap-jit", "jit-vmap"])
def test_compiled_functions_and_batching_combine(wrap):
    rows = Tensor(np.stack([X, X + 1.0]))
    expected = np.stack([grad(curve)(Tensor(row)).numpy() for row in rows.numpy()])
    np.testing.assert_allclose(wrap(grad(curve))(rows).numpy(), expected, rtol=1e-12)


def network():
    return nn.SequentialCell(
        nn.Dense(5, 6, key=Key(0), dtype=np.float64), nn.GELU(), nn.Dense(6, 3, key=Key(1), dtype=np.float64)
    ).set_train()


BATCHES = [np.random.default_rng(n).standard_normal((4, 5)) for n in range(4)]


def steps_with_gradients(net, adam, wrap):
    forward = value_and_grad(lambda x: (net(x) ** 2).sum(), None, adam.parameters)

    def step(x):
        loss, gradients = forward(x)
        adam(gradients)
        return loss

    return wrap(step)


def steps_with_backward(net, adam, wrap):
    def step(x):
        adam.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        adam.step()
        return loss.detach()

    return wrap(step)


def steps_with_clipping(net, adam, wrap):
    forward = value_and_grad(lambda x: (net(x) ** 2).sum(), None, adam.parameters)

    def step(x):
        loss, gradients = forward(x)
        norm = optim.clip_by_global_norm(gradients, 0.5)
        adam(gradients)
        return loss + norm

    return wrap(step)


@pytest.mark.parametrize("write", [steps_with_gradients, steps_with_backward, steps_with_clipping])
def test_a_whole_step_with_an_optimizer_compiles(write):
    runs = []
    for wrap in (lambda f: f, traced):
        net = network()
        adam = optim.AdamW(net.trainable_params(), 0.01)
        norms = []
        adam.register_step_pre_hook(lambda o, g, norms=norms: norms.append([float((a * a).sum()) for a in g]))
        step = write(net, adam, wrap)
        losses = [step(Tensor(x)).item() for x in BATCHES]
        grads = [p.grad.numpy() for p in adam.parameters if p.grad is not None]
        runs.append((losses, norms, [p.asnumpy() for p in net.get_parameters()], grads, adam.step_count))
    for a, b in zip(*(run[:2] for run in runs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for part in (2, 3):
        assert len(runs[0][part]) == len(runs[1][part])
        for a, b in zip(runs[0][part], runs[1][part], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)
    assert runs[0][4] == runs[1][4] == len(BATCHES)


def test_weights_after_a_step_in_the_same_function_are_an_error(mode):
    if mode == "bytecode":
        pytest.skip("the function is split there")
    net = network()
    sgd = optim.SGD(net.trainable_params(), 0.1)

    def two(x):
        sgd(value_and_grad(lambda x: net(x).sum(), None, sgd.parameters)(x)[1])
        return net(x)

    with pytest.raises(CaptureError, match="is used after an optimizer made its step"):
        traced(two)(Tensor(BATCHES[0]))


def test_gradients_from_before_cannot_be_added_to(mode):
    if mode == "bytecode":
        pytest.skip("the function is split there")
    net = network()
    net(Tensor(BATCHES[0])).sum().backward()
    kept = [p.grad for p in net.trainable_params()]
    with pytest.raises(CaptureError, match="call zero_grad"):
        traced(lambda x: net(x).sum().backward())(Tensor(BATCHES[0]))
    assert all(p.grad is g for p, g in zip(net.trainable_params(), kept, strict=True))


HOOKS = ("forward_pre_hook", "forward_hook", "backward_pre_hook", "backward_hook")


def noting(kind, seen):
    def hook(cell, *values):
        arrays = [x for part in values for x in (part if isinstance(part, tuple) else (part,))]
        seen.append((kind, [None if x is None else x.asnumpy() for x in arrays]))

    return hook


def a_run_with_hooks(order):
    """What hooks of the middle cell saw in some steps; they come after the first step and go before the last."""
    net, seen = network(), []

    def loss(x):
        return (net(x) ** 2).sum()

    step = value_and_grad(traced(loss) if order == "grad-jit" else loss, None, net.trainable_params())
    step = traced(step) if order == "jit-grad" else step
    step(Tensor(BATCHES[0]))
    handles = [getattr(net[1], f"register_{kind}")(noting(kind, seen)) for kind in HOOKS]
    for x in BATCHES:
        step(Tensor(x))
    count = len(seen)
    for handle in handles:
        handle.remove()
    step(Tensor(BATCHES[0]))
    assert len(seen) == count
    return seen


@pytest.mark.parametrize("order", ["jit-grad", "grad-jit"])
def test_hooks_of_cells_see_the_same_values_in_both_modes(order):
    expected, found = a_run_with_hooks("eager"), a_run_with_hooks(order)
    assert [kind for kind, _ in found] == [kind for kind, _ in expected]
    for (_, a), (_, b) in zip(found, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


def test_a_backward_hook_may_exchange_gradients_in_a_compiled_function():
    net = network()
    net[1].register_backward_hook(lambda cell, grads, _: tuple(g * 0.0 for g in grads))
    step = traced(value_and_grad(lambda x: net(x).sum(), None, net.trainable_params()))
    gradients = step(Tensor(BATCHES[0]))[1]
    assert not gradients[0].numpy().any()
    assert gradients[2].numpy().any()


def test_a_forward_hook_that_exchanges_values_is_an_error_that_names_the_cell():
    net = network()
    net[1].register_forward_hook(lambda cell, inputs, output: output * 2.0)
    with pytest.raises(EngineError, match=r"a forward hook of cell '1' returned Tensor inside a compiled function"):
        traced(net)(Tensor(BATCHES[0]))


@pytest.mark.parametrize("order", ["jit-grad", "grad-jit"])
def test_hooks_on_gradients_of_weights_come_and_go(order):
    net = network()

    def loss(x):
        return (net(x) ** 2).sum()

    step = value_and_grad(traced(loss) if order == "grad-jit" else loss, None, net.trainable_params())
    step = traced(step) if order == "jit-grad" else step
    plain = step(Tensor(BATCHES[0]))[1][0].numpy()
    seen = []
    with net[0].weight.register_hook(lambda g: seen.append(g.asnumpy()) or g * 2.0):
        for _ in range(2):
            np.testing.assert_allclose(step(Tensor(BATCHES[0]))[1][0].numpy(), 2.0 * plain, rtol=1e-12)
    np.testing.assert_array_equal(step(Tensor(BATCHES[0]))[1][0].numpy(), plain)
    assert len(seen) == 2
    np.testing.assert_allclose(seen[0], plain, rtol=1e-12)


def test_hooks_on_gradients_inside_a_compiled_function_are_called_at_every_run(mode):
    seen = []

    def loss(x):
        y = x * 2.0
        y.register_hook(lambda g: seen.append(g.asnumpy()))
        return (y * y).sum()

    step = traced(grad(loss))
    for n in range(3):
        step(Tensor(X + n))
    assert len(seen) == 3
    np.testing.assert_allclose(seen[1], 4.0 * (X + 1))


@pytest.mark.parametrize("order", ["jit-grad", "grad-jit"])
def test_who_waits_for_the_start_of_a_backward_pass_is_told_in_both_modes(order):
    def loss(x):
        return (x * x).sum()

    step = traced(grad(loss)) if order == "jit-grad" else grad(traced(loss))
    step(Tensor(X))
    seen = []
    with register_backward_start_hook(lambda root: seen.append(root.item())):
        step(Tensor(X))
        step(Tensor(2 * X))
    step(Tensor(X))
    assert seen == [(X * X).sum(), (4 * X * X).sum()]
