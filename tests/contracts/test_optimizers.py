"""One contract for every optimizer: exact formulas, and the memory that a step runs in."""

import numpy as np
import pytest
from mindscope.framework import Parameter, optim
from mindscope.framework.optim import Optimizer

from tests.contracts.optimizer_cases import OPTIMIZERS, SHAPES, every_optimizer, gradients, parameters

try:
    import torch
except ModuleNotFoundError:
    torch = None


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


def test_embeddings_can_be_kept_from_the_orthogonal_step():
    mine, reference = parameters(), parameters()
    optim.Muon([{"params": mine, "orthogonal": False}], 0.1)(gradients())
    optim.AdamW(reference, 0.1, 0.9, 0.95, weight_decay=0.1)(gradients())
    for a, b in zip(mine, reference, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)])
def test_an_orthogonalized_matrix_keeps_its_singular_vectors(shape):
    from mindscope.framework.optim.tensorwise_optimizers import orthogonalized

    matrix = np.random.default_rng(0).standard_normal(shape)
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    found = orthogonalized(matrix)
    turned = u.T @ found @ v.T
    np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-12)
    assert (np.abs(np.diag(turned) - 1.0)[s > 0.2 * s.max()] < 0.4).all()
