"""One contract for every optimizer: exact formulas, groups, memory, hooks, state.

`OPTIMIZERS` has a line for each: how to make it, a slow version in plain NumPy, and its twin in PyTorch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mindscope.framework import Parameter, ShapeError, Tensor, optim
from mindscope.framework.optim import Optimizer, StepDecay

try:
    import torch
except ModuleNotFoundError:
    torch = None


def slow_sgd(w, g, state, step, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    g = g + weight_decay * w
    if momentum == 0.0:
        return w - lr * g
    fresh = 1.0 if step == 1 else 1.0 - dampening
    buffer = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0 * g) + fresh * g
    return w - lr * (g + momentum * buffer if nesterov else buffer)


def slow_adam(w, g, state, step, *, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled=False):
    if decoupled:
        w = w * (1.0 - lr * weight_decay)
    else:
        g = g + weight_decay * w
    m = state["exp_avg"] = betas[0] * state.get("exp_avg", 0.0 * g) + (1.0 - betas[0]) * g
    v = state["exp_avg_sq"] = betas[1] * state.get("exp_avg_sq", 0.0 * g) + (1.0 - betas[1]) * g * g
    return w - lr * (m / (1.0 - betas[0] ** step)) / (np.sqrt(v / (1.0 - betas[1] ** step)) + eps)


def slow_adagrad(w, g, state, step, *, lr, lr_decay=0.0, eps=1e-10, weight_decay=0.0, initial_accumulator_value=0.0):
    g = g + weight_decay * w
    s = state["sum"] = state.get("sum", initial_accumulator_value + 0.0 * g) + g * g
    return w - lr / (1.0 + (step - 1) * lr_decay) * g / (np.sqrt(s) + eps)


def slow_rmsprop(w, g, state, step, *, lr, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    g = g + weight_decay * w
    v = state["square_avg"] = alpha * state.get("square_avg", 0.0 * g) + (1.0 - alpha) * g * g
    mean = state["grad_avg"] = state.get("grad_avg", 0.0 * g)
    if centered:
        mean = state["grad_avg"] = alpha * mean + (1.0 - alpha) * g
    b = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0 * g) + g / (np.sqrt(v - mean**2) + eps)
    return w - lr * b


def slow_lion(w, g, state, step, *, lr, beta1=0.9, beta2=0.99, weight_decay=0.0):
    m = state.get("exp_avg", 0.0 * g)
    state["exp_avg"] = beta2 * m + (1.0 - beta2) * g
    return w - lr * (np.sign(beta1 * m + (1.0 - beta1) * g) + weight_decay * w)


def slow_lamb(w, g, state, step, *, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
    m = state["exp_avg"] = beta1 * state.get("exp_avg", 0.0 * g) + (1.0 - beta1) * g
    v = state["exp_avg_sq"] = beta2 * state.get("exp_avg_sq", 0.0 * g) + (1.0 - beta2) * g * g
    r = m / (1.0 - beta1**step) / (np.sqrt(v / (1.0 - beta2**step)) + eps) + weight_decay * w
    lengths = np.sqrt(np.sum(w**2)), np.sqrt(np.sum(r**2))
    return w - lr * (lengths[0] / lengths[1] if min(lengths) > 0.0 else 1.0) * r


def slow_lars(w, g, state, step, *, lr, momentum=0.9, weight_decay=0.0, coefficient=1e-3, eps=1e-5):
    of_w, of_g = np.sqrt(np.sum(w**2)), np.sqrt(np.sum(g**2))
    local = coefficient * of_w / (of_g + weight_decay * of_w + eps) if min(of_w, of_g, coefficient) > 0.0 else 1.0
    b = state["momentum_buffer"] = momentum * state.get("momentum_buffer", 0.0 * g) + lr * local * (
        g + weight_decay * w
    )
    return w - b


def slow_adafactor(w, g, state, step, *, lr, decay_rate=0.8, d=1.0, weight_decay=0.0):
    """PyTorch's factoring of the last two axes, written with explicit sums over rows and columns."""
    tiny, least_weight = np.finfo(np.float64).eps, 1e-3
    new = step**-decay_rate
    rate = max(least_weight, np.sqrt(np.mean(w**2))) * min(lr, step**-0.5)
    if w.ndim < 2:
        state.update(row_var=np.zeros(0), col_var=np.zeros(0))
        estimate = state["variance"] = (1 - new) * state.get("variance", 0.0 * g) + new * g**2
    else:
        state["variance"] = np.zeros(0)
        rows = state["row_var"] = (1 - new) * state.get("row_var", 0.0) + new * np.sum(g**2, -1) / g.shape[-1]
        columns = state["col_var"] = (1 - new) * state.get("col_var", 0.0) + new * np.sum(g**2, -2) / g.shape[-2]
        estimate = np.einsum("...r,...c->...rc", rows, columns) / np.maximum(rows.mean(-1), tiny)[..., None, None]
    update = g / np.sqrt(np.maximum(estimate, tiny**2))
    update = update / max(1.0, np.sqrt(np.mean(update**2)) / d)
    return w * (1.0 - lr * weight_decay) - rate * update


def slow_muon(w, g, state, step, *, lr, momentum=0.95, weight_decay=0.1, nesterov=True, ratio=None):
    if w.ndim < 2:
        return slow_adam(w, g, state, step, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay, decoupled=True)
    state["exp_avg_sq"] = np.zeros(0)
    b = state["exp_avg"] = momentum * state.get("exp_avg", 0.0 * g) + (1.0 - momentum) * g
    ahead = (momentum * b + (1.0 - momentum) * g) if nesterov else b
    u, s, v = np.linalg.svd(ahead.reshape(len(w), -1), full_matrices=False)
    s = s / np.sqrt(np.sum(s**2))
    for _ in range(5):  # the polynomial of the iteration acts on the singular values alone
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    rows, columns = len(w), w.size // len(w)
    scale = 0.2 * np.sqrt(max(rows, columns)) if ratio is None else ratio(rows, columns)
    return w * (1.0 - lr * weight_decay) - lr * scale * ((u * s) @ v).reshape(w.shape)


@dataclass(frozen=True, slots=True)
class Case:
    make: Any
    slow: Any
    twin: Any
    options: dict[str, Any]
    #: Whether an element's step depends on no other element: then one bad gradient spoils nothing else.
    is_elementwise: bool = True
    #: The options of the twin, where it calls them otherwise.
    twin_options: dict[str, Any] | None = None
    #: Which of the parameters the twin can take, and how near it comes in float32.
    twin_takes: tuple[int, ...] = (0, 1, 2, 3)
    twin_tolerance: tuple[float, float] = (2e-5, 2e-6)


OPTIMIZERS = {
    "SGD": Case(lambda p, r=0.1: optim.SGD(p, r), slow_sgd, "SGD", {}),
    "SGD-decay": Case(lambda p, r=0.1: optim.SGD(p, r, weight_decay=0.05), slow_sgd, "SGD", {"weight_decay": 0.05}),
    "SGD-dampened": Case(
        lambda p, r=0.1: optim.SGD(p, r, momentum=0.9, dampening=0.3),
        slow_sgd,
        "SGD",
        {"momentum": 0.9, "dampening": 0.3},
    ),
    "Momentum": Case(
        lambda p, r=0.1: optim.Momentum(p, r, 0.9, weight_decay=0.01),
        slow_sgd,
        "SGD",
        {"momentum": 0.9, "weight_decay": 0.01},
    ),
    "Momentum-nesterov": Case(
        lambda p, r=0.1: optim.Momentum(p, r, 0.8, use_nesterov=True),
        slow_sgd,
        "SGD",
        {"momentum": 0.8, "nesterov": True},
    ),
    "Adam": Case(lambda p, r=0.1: optim.Adam(p, r), slow_adam, "Adam", {}),
    "Adam-decay": Case(
        lambda p, r=0.1: optim.Adam(p, r, 0.8, 0.99, 1e-6, 0.05),
        slow_adam,
        "Adam",
        {"betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.05},
    ),
    "AdamW": Case(
        lambda p, r=0.1: optim.AdamW(p, r, weight_decay=0.05),
        lambda *a, **k: slow_adam(*a, decoupled=True, **k),
        "AdamW",
        {"weight_decay": 0.05},
    ),
    "Adagrad": Case(lambda p, r=0.1: optim.Adagrad(p, r), slow_adagrad, "Adagrad", {}),
    "Adagrad-decay": Case(
        lambda p, r=0.1: optim.Adagrad(p, r, 0.2, 0.05, 0.1, 1e-6),
        slow_adagrad,
        "Adagrad",
        {"lr_decay": 0.2, "weight_decay": 0.05, "initial_accumulator_value": 0.1, "eps": 1e-6},
    ),
    "RMSprop": Case(lambda p, r=0.1: optim.RMSprop(p, r), slow_rmsprop, "RMSprop", {}),
    "RMSprop-centred": Case(
        lambda p, r=0.1: optim.RMSprop(p, r, 0.9, 1e-6, 0.05, 0.8, True),
        slow_rmsprop,
        "RMSprop",
        {"alpha": 0.9, "eps": 1e-6, "weight_decay": 0.05, "momentum": 0.8, "centered": True},
        twin_tolerance=(2e-4, 2e-5),
    ),
    "Lion": Case(
        lambda p, r=0.1: optim.Lion(p, r, 0.8, 0.95, 0.05),
        slow_lion,
        None,
        {"beta1": 0.8, "beta2": 0.95, "weight_decay": 0.05},
    ),
    "Lamb": Case(
        lambda p, r=0.1: optim.Lamb(p, r, weight_decay=0.05),
        slow_lamb,
        None,
        {"weight_decay": 0.05},
        is_elementwise=False,
    ),
    "Lars": Case(
        lambda p, r=0.1: optim.Lars(p, r, 0.8, 0.05, 0.1),
        slow_lars,
        None,
        {"momentum": 0.8, "weight_decay": 0.05, "coefficient": 0.1},
        is_elementwise=False,
    ),
    "Lars-unscaled": Case(
        lambda p, r=0.1: optim.Lars(p, r, coefficient=0.0),
        lambda *a, **k: slow_lars(*a, coefficient=0.0, **k),
        None,
        {},
    ),
    "Adafactor": Case(
        lambda p, r=0.1: optim.Adafactor(p, r, weight_decay=0.05),
        slow_adafactor,
        "Adafactor",
        {"weight_decay": 0.05},
        is_elementwise=False,
    ),
    "Muon": Case(
        lambda p, r=0.1: optim.Muon(p, r),
        slow_muon,
        "Muon",
        {},
        is_elementwise=False,
        twin_options={"adjust_lr_fn": "match_rms_adamw"},
        twin_takes=(0,),
        twin_tolerance=(0.05, 0.1),  # the twin's iteration runs in bfloat16
    ),
    "Muon-original": Case(
        lambda p, r=0.1: optim.Muon(p, r, 0.9, False, 0.05, adjust="original"),
        lambda *a, **k: slow_muon(*a, ratio=lambda m, n: np.sqrt(max(1.0, m / n)), **k),
        "Muon",
        {"momentum": 0.9, "nesterov": False, "weight_decay": 0.05},
        is_elementwise=False,
        twin_takes=(0,),
        twin_tolerance=(0.05, 0.1),
    ),
}
every_optimizer = pytest.mark.parametrize("case", OPTIMIZERS.values(), ids=OPTIMIZERS)
SHAPES = ((3, 5), (7,), (), (2, 1, 3))


def parameters(dtype=np.float64, seed=0) -> list[Parameter]:
    generator = np.random.default_rng(seed)
    return [Parameter(generator.standard_normal(s).astype(dtype), f"p{n}") for n, s in enumerate(SHAPES)]


def gradients(dtype=np.float64, seed=1):
    generator = np.random.default_rng(seed)
    return tuple(generator.standard_normal(shape).astype(dtype) for shape in SHAPES)


def test_every_exported_optimizer_is_under_contract():
    exported = {getattr(optim, name) for name in optim.__all__}
    formulas = {c for c in exported if isinstance(c, type) and issubclass(c, Optimizer) and c is not Optimizer}
    assert formulas == {type(case.make(parameters())) for case in OPTIMIZERS.values()}


@every_optimizer
def test_ten_steps_follow_the_formula_in_float64(case):
    mine = parameters()
    expected, states = [p.asnumpy() for p in mine], [{} for _ in SHAPES]
    optimizer = case.make(mine)
    for step in range(1, 11):
        given = gradients(seed=step)
        optimizer(given)
        expected = [
            case.slow(w, g, s, step, lr=0.1, **case.options) for w, g, s in zip(expected, given, states, strict=True)
        ]
    for parameter, value in zip(mine, expected, strict=True):
        np.testing.assert_allclose(parameter.numpy(), value, rtol=1e-12, atol=1e-14)
    for name, arrays in optimizer.slots().items():
        for array, state in zip(arrays, states, strict=True):
            np.testing.assert_allclose(array, state[name], rtol=1e-12, atol=1e-16)


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed; it is the second witness")
@pytest.mark.parametrize(
    "case", [case for case in OPTIMIZERS.values() if case.twin], ids=[name for name, c in OPTIMIZERS.items() if c.twin]
)
def test_steps_agree_with_pytorch_to_the_last_bits_of_float32(case):
    mine = [p for n, p in enumerate(parameters(np.float32)) if n in case.twin_takes]
    theirs = [torch.nn.Parameter(torch.tensor(p.asnumpy())) for p in mine]
    twin = getattr(torch.optim, case.twin)(theirs, lr=0.1, **{**case.options, **(case.twin_options or {})})
    optimizer = case.make(mine)
    for step in range(20):
        given = [g for n, g in enumerate(gradients(np.float32, seed=step)) if n in case.twin_takes]
        optimizer(given)
        for parameter, gradient in zip(theirs, given, strict=True):
            parameter.grad = torch.tensor(gradient)
        twin.step()
    for parameter, other in zip(mine, theirs, strict=True):
        rtol, atol = case.twin_tolerance
        np.testing.assert_allclose(parameter.numpy(), other.detach().numpy(), rtol=rtol, atol=atol)


@every_optimizer
def test_parameters_and_slots_live_in_aligned_arenas_and_keep_their_values(case):
    mine = parameters(np.float32)
    before = [p.asnumpy() for p in mine]
    optimizer = case.make(mine)
    for parameter, value in zip(mine, before, strict=True):
        np.testing.assert_array_equal(parameter.numpy(), value)
        assert parameter.numpy().ctypes.data % 64 == 0
    starts = [p.numpy().ctypes.data for p in mine]
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] < 64 * 4
    for name, arrays in optimizer.slots().items():
        assert [a.shape for a in arrays] == [optimizer._slot_shape(name, shape, 0) for shape in SHAPES]
        assert all(a.ctypes.data % 64 == 0 for a in arrays)


@every_optimizer
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_gradients_in_the_arena_make_the_same_step_to_the_last_bit(case, dtype):
    mine, reference = parameters(dtype), parameters(dtype)
    split = [{"params": mine[:2]}, {"params": mine[2:], "lr": 0.01}]
    optimizer = case.make(split)
    other = case.make([{"params": reference[:2]}, {"params": reference[2:], "lr": 0.01}])
    arena = optimizer.gradient_arena()
    assert arena is optimizer.gradient_arena()
    assert [view.shape for view in arena.views] == list(SHAPES)
    versions = [p.version for p in mine]
    for step in range(4):
        given = gradients(dtype, seed=step)
        other(given)
        for view, values in zip(arena.views, given, strict=True):
            view[...] = values
        optimizer(arena.views if step % 2 else list(arena.views))
    for a, b in zip(mine, reference, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert [p.version for p in mine] == [version + 4 for version in versions]
    np.testing.assert_array_equal(optimizer.state_dict()["steps"], [4] * len(mine))


@every_optimizer
def test_the_arena_can_follow_a_step_that_left_a_parameter_out(case):
    mine, reference = parameters(), parameters()
    optimizer, other = case.make(mine), case.make(reference)
    given = gradients()
    for each in (optimizer, other):
        each((None, *given[1:]))
    arena = optimizer.gradient_arena()
    for view, values in zip(arena.views, given, strict=True):
        view[...] = values
    optimizer(arena.views)
    other(given)
    for a, b in zip(mine, reference, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    np.testing.assert_array_equal(optimizer.state_dict()["steps"], [1, 2, 2, 2])


@every_optimizer
def test_step_takes_the_gradients_that_backward_left(case):
    by_call, by_step = parameters(), parameters()
    first, second = case.make(by_call), case.make(by_step)
    for parameter in by_step:
        (parameter * parameter).sum().backward()
    first([2.0 * p.numpy() for p in by_call])
    second.step()
    for a, b in zip(by_call, by_step, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    second.zero_grad()
    assert all(p.grad is None for p in by_step)


@every_optimizer
def test_a_parameter_without_gradient_stays_and_does_not_age(case):
    mine, reference = parameters(), parameters()
    optimizer, other = case.make(mine), case.make(reference)
    given = gradients()
    optimizer((None, *given[1:]))
    np.testing.assert_array_equal(mine[0].numpy(), parameters()[0].numpy())
    optimizer(given)
    other(given)
    np.testing.assert_array_equal(mine[0].numpy(), reference[0].numpy())


@every_optimizer
def test_groups_have_rates_and_options_of_their_own(case):
    mine, reference = parameters(), parameters()
    optimizer = case.make([{"params": mine[:2]}, {"params": mine[2:], "lr": 0.0, "weight_decay": 0.0}])
    other = case.make(reference)
    given = gradients()
    optimizer(given)
    other(given)
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.0]
    for position, (a, b) in enumerate(zip(mine, reference, strict=True)):
        np.testing.assert_array_equal(a.numpy(), b.numpy() if position < 2 else parameters()[position].numpy())


@every_optimizer
def test_a_schedule_sets_the_rate_of_each_step(case):
    mine, reference = parameters(), parameters()
    optimizer, other = case.make(mine, StepDecay(0.1, every=2)), case.make(reference)
    rates = []
    optimizer.register_step_pre_hook(lambda o, _: rates.append(o.param_groups[0]["lr"]))
    for step in range(5):
        other.param_groups[0]["lr"] = StepDecay(0.1, every=2)(step)
        optimizer(gradients(seed=step))
        other(gradients(seed=step))
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])
    for a, b in zip(mine, reference, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@every_optimizer
def test_hooks_see_the_step_from_both_sides_and_can_be_removed_meanwhile(case):
    mine = parameters()
    optimizer, given, seen = case.make(mine), gradients(), []

    def before(o, g):
        seen.append(("before", o.step_count, [x is y for x, y in zip(g, given, strict=True)], mine[0].asnumpy()))
        handle.remove()

    handle = optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(lambda o, g: seen.append(("after", o.step_count, len(g), mine[0].asnumpy())))
    optimizer(given)
    optimizer(given)
    assert [entry[:2] for entry in seen] == [("before", 0), ("after", 1), ("after", 2)]
    assert seen[0][2] == [True] * len(given)
    assert not np.array_equal(seen[0][3], seen[1][3])


@every_optimizer
def test_a_failing_hook_stops_the_step_before_anything_moved(case):
    mine = parameters()
    optimizer = case.make(mine)

    def fail(*_):
        raise KeyError("mine")

    handle = optimizer.register_step_pre_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        optimizer(gradients())
    np.testing.assert_array_equal(mine[0].numpy(), parameters()[0].numpy())
    assert optimizer.step_count == 0
    handle.remove()
    optimizer(gradients())
    assert optimizer.step_count == 1


@every_optimizer
def test_a_resumed_optimizer_goes_on_bit_for_bit(case):
    mine = parameters(np.float32)
    optimizer = case.make(mine, StepDecay(0.1, every=3))
    for step in range(4):
        optimizer(gradients(np.float32, step))
    saved, weights = optimizer.state_dict(), [p.asnumpy() for p in mine]
    resumed = [Parameter(w, f"p{n}") for n, w in enumerate(weights)]
    other = case.make(resumed, StepDecay(0.1, every=3))
    other.load_state_dict(saved)
    for step in range(4, 8):
        optimizer(gradients(np.float32, step))
        other(gradients(np.float32, step))
    assert optimizer.step_count == other.step_count == 8
    for a, b in zip(mine, resumed, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@every_optimizer
def test_half_precision_is_stepped_in_float32(case):
    mine = parameters(np.float16)
    wide = [Parameter(p.asnumpy().astype(np.float32), p.name) for p in mine]
    optimizer, other = case.make(mine), case.make(wide)
    given = gradients(np.float16)
    optimizer(given)
    other([g.astype(np.float32) for g in given])
    for a, b in zip(mine, wide, strict=True):
        assert a.numpy().dtype == np.float16
        np.testing.assert_array_equal(a.numpy(), b.numpy().astype(np.float16))
    for arrays in optimizer.slots().values():
        assert {x.dtype for x in arrays} == {np.dtype(np.float32)}


@every_optimizer
def test_non_finite_gradients_reach_the_weights_and_only_where_they_are(case):
    mine = parameters()
    given = gradients()
    given[1][3] = np.nan
    case.make(mine)(given)
    spoilt = np.flatnonzero(np.isnan(mine[1].numpy())).tolist()
    assert spoilt == [3] if case.is_elementwise else 3 in spoilt
    assert np.isfinite(mine[0].numpy()).all()


@every_optimizer
def test_gradients_in_any_memory_order_give_the_same_step(case):
    mine, reference = parameters(), parameters()
    given = gradients()
    case.make(mine)((np.asfortranarray(given[0]), *given[1:]))
    case.make(reference)(given)
    np.testing.assert_array_equal(mine[0].numpy(), reference[0].numpy())


@every_optimizer
def test_a_parameter_given_another_array_is_brought_back_with_its_new_values(case):
    mine, reference = parameters(), parameters()
    optimizer, other = case.make(mine), case.make(reference)
    mine[0].move_to(np.empty(SHAPES[0]))
    for p in (mine[0], reference[0]):
        p.set_data(np.full(SHAPES[0], 3.0))
    optimizer(gradients())
    other(gradients())
    np.testing.assert_array_equal(mine[0].numpy(), reference[0].numpy())
    assert mine[0].numpy().ctypes.data % 64 == 0


@every_optimizer
def test_a_step_between_forward_and_backward_is_noticed(case):
    parameter = Parameter(np.ones(3), "w")
    optimizer = case.make([parameter])
    loss = (parameter * parameter).sum()
    optimizer([np.ones(3)])
    with pytest.raises(RuntimeError, match="was changed in place after it was used"):
        loss.backward()


@every_optimizer
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (gradients()[:2], ShapeError, "expects 4 gradients, one for each of its parameters, got 2"),
        ((np.zeros((5, 3)), *gradients()[1:]), ShapeError, r"shape \(3, 5\) for parameter 'p0', got \(5, 3\)"),
        ((np.zeros((3, 5), np.int64), *gradients()[1:]), TypeError, "floating-point gradient for 'p0', got int64"),
    ],
    ids=["too few", "shape", "dtype"],
)
def test_gradients_that_do_not_fit_are_refused_in_words(case, given, error, words):
    mine = parameters()
    with pytest.raises(error, match=words):
        case.make(mine)(given)
    np.testing.assert_array_equal(mine[1].numpy(), parameters()[1].numpy())


@every_optimizer
def test_parameters_that_make_no_sense_are_refused_in_words(case):
    mine = parameters()
    for given, error, words in (
        ([], ValueError, "at least one parameter"),
        ([mine[0], mine[0]], ValueError, "'p0' appears in group 0 and again in group 0"),
        ([Tensor(np.ones(2))], TypeError, "expects Parameters, got Tensor"),
        ([{"params": mine, "learning_rat": 1.0}], ValueError, "no option 'learning_rat'"),
        ([{"params": mine, "weight_decy": 1.0}], ValueError, "did you mean 'weight_decay'"),
        ([{"lr": 1.0}], ValueError, "group 0 has no 'params'"),
        ([{"params": []}], ValueError, "group 0 is empty"),
        ([mine[0], {"params": mine[1:]}], TypeError, "a mixture of both"),
        ([{"params": mine, "weight_decay": -1.0}], ValueError, "weight_decay of 0 or more, got -1.0"),
    ):
        with pytest.raises(error, match=words):
            case.make(given)
    for rate in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="learning rate at step 0"):
            case.make(mine, rate)


@every_optimizer
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(case):
    optimizer = case.make(parameters())
    optimizer(gradients())
    good = optimizer.state_dict()
    other = case.make([Parameter(np.ones(2), "w")])
    for state, words in (
        ({}, "kind, step_count, steps, groups, slots missing"),
        ({**good, "kind": "LBFGS"}, "it was saved by LBFGS"),
        ({**good, "groups": []}, "expected 1 groups, got 0"),
        ({**good, "slots": {"wrong": []}}, "expected slots"),
    ):
        with pytest.raises(ValueError, match=words):
            optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="expected 1 parameters, got 4"):
        other.load_state_dict(good)
    assert optimizer.step_count == 1
    assert other.step_count == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: optim.SGD(p, 0.1, momentum=1.0), r"momentum in \[0, 1\), got 1.0"),
        (lambda p: optim.SGD(p, 0.1, nesterov=True), "where nesterov is asked for"),
        (lambda p: optim.Adam(p, beta1=1.0), r"both betas in \[0, 1\)"),
        (lambda p: optim.AdamW(p, eps=0.0), "eps above 0, got 0.0"),
        (lambda p: optim.Adagrad(p, initial_accumulator_value=-1.0), "initial_accumulator_value of 0 or more"),
        (lambda p: optim.RMSprop(p, alpha=1.0), r"alpha in \[0, 1\)"),
        (lambda p: optim.Lion(p, beta2=1.5), r"beta2 in \[0, 1\)"),
        (lambda p: optim.Lamb(p, 0.1, eps=0.0), "eps above 0, got 0.0"),
        (lambda p: optim.Lars(p, 0.1, coefficient=-1.0), "coefficient of 0 or more"),
        (lambda p: optim.Adafactor(p, clip_threshold=0.0), "clip_threshold above 0"),
        (lambda p: optim.Adafactor(p, eps=(None, -1.0)), "eps to be two numbers"),
        (lambda p: optim.Muon(p, adjust="best"), "adjust to be one of match_rms_adamw, original, none"),
        (lambda p: optim.Muon(p, ns_steps=0), "ns_steps from 1 to 99"),
    ],
)
def test_options_out_of_range_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make(parameters())


def test_a_buffer_asked_for_later_is_refused():
    optimizer = optim.SGD(parameters(), 0.1)
    optimizer.param_groups[0]["momentum"] = 0.9
    with pytest.raises(ValueError, match="keeps no buffer; give momentum when you make it"):
        optimizer(gradients())


def test_decay_of_weights_has_its_other_name():
    assert optim.AdamWeightDecay is optim.AdamW


def test_a_list_of_rates_is_a_schedule_whose_last_rate_stays():
    mine, seen = parameters(), []
    optimizer = optim.SGD(mine, [0.3, 0.2])
    optimizer.register_step_pre_hook(lambda o, _: seen.append(o.param_groups[0]["lr"]))
    for _ in range(3):
        optimizer(gradients())
    assert seen == [0.3, 0.2, 0.2]
    with pytest.raises(ValueError, match="one rate or more"):
        optim.SGD(mine, [])


def test_embeddings_can_be_kept_from_the_orthogonal_step():
    mine, reference = parameters(), parameters()
    optim.Muon([{"params": mine, "orthogonal": False}], 0.1)(gradients())
    optim.AdamW(reference, 0.1, 0.9, 0.95, weight_decay=0.1)(gradients())
    for a, b in zip(mine, reference, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)])
def test_an_orthogonalized_matrix_keeps_its_singular_vectors(shape):
    from mindscope.framework.optim.muon import orthogonalized

    matrix = np.random.default_rng(0).standard_normal(shape)
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    found = orthogonalized(matrix)
    turned = u.T @ found @ v.T
    np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-12)
    assert (np.abs(np.diag(turned) - 1.0)[s > 0.2 * s.max()] < 0.4).all()
