"""Recurrent layers: the same numbers as PyTorch and as their composition, sequences of different lengths, both ways."""

import numpy as np
import pytest
from mindscope.framework import Tensor, ops
from mindscope.framework.compiler import jit
from mindscope.framework.errors import ShapeError
from mindscope.framework.testing import check_gradients

torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")

_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def _numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def _arrays(name, time=4, batch=3, features=5, hidden=6):
    rows = _GATES[name] * hidden
    shapes = [(time, batch, features), (rows, features), (rows, hidden), (rows,), (rows,), (batch, hidden)]
    return [_numbers(i, *shape) * 0.7 for i, shape in enumerate(shapes)]


def _call(name, x, w_ih, w_hh, b_ih, b_hh, h, **options):
    state = (h, h * 0.5) if name == "lstm" else h
    found = getattr(ops, name)(x, state, w_ih, w_hh, b_ih, b_hh, **options)
    y, last = found
    return (y, *last) if name == "lstm" else (y, last)


def _torch(name, x, w_ih, w_hh, b_ih, b_hh, h):
    kind = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[name]
    layer = kind(x.shape[2], h.shape[1]).double()
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    given = dict(zip(names, (w_ih, w_hh, b_ih, b_hh), strict=True))
    state = (h[None], h[None] * 0.5) if name == "lstm" else h[None]
    y, last = torch.func.functional_call(layer, given, (x, state))
    return (y, last[0][0], last[1][0]) if name == "lstm" else (y, last[0])


@pytest.mark.parametrize("name", _GATES)
def test_values_and_gradients_are_those_of_pytorch(name):
    arrays = _arrays(name)
    xs = [Tensor(x, requires_grad=True) for x in arrays]
    ts = [torch.tensor(x, requires_grad=True) for x in arrays]
    ours, theirs = _call(name, *xs), _torch(name, *ts)
    total, wanted = 0.0, 0.0
    for i, (y, z) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-10, atol=1e-12)
        weights = _numbers(50 + i, *y.shape)
        total, wanted = total + (y * Tensor(weights)).sum(), wanted + (z * torch.tensor(weights)).sum()
    total.backward()
    wanted.backward()
    for x, t in zip(xs, ts, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", _GATES)
def test_a_short_sequence_is_as_if_it_stood_alone(name, reverse):
    tensors = [Tensor(x) for x in _arrays(name)]
    lengths = [4, 1, 2]
    together = _call(name, *tensors, lengths=lengths, reverse=reverse)
    for row, length in enumerate(lengths):
        x, *weights, h = tensors
        alone = _call(name, x[:length, row : row + 1], *weights, h[row : row + 1], reverse=reverse)
        np.testing.assert_allclose(together[0].numpy()[:length, row], alone[0].numpy()[:, 0], rtol=1e-12)
        assert not together[0].numpy()[length:, row].any()
        for state, wanted in zip(together[1:], alone[1:], strict=True):
            np.testing.assert_allclose(state.numpy()[row], wanted.numpy()[0], rtol=1e-12)


@pytest.mark.parametrize("name", _GATES)
def test_the_other_functions_given_by_hand_take_the_composed_way_to_the_same_numbers(name):
    tensors = [Tensor(x) for x in _arrays(name)]
    by_hand = {
        "rnn": {"function": ops.tanh},
        "gru": {"functions": (ops.sigmoid, ops.tanh)},
        "lstm": {"functions": (ops.sigmoid, ops.tanh, ops.tanh)},
    }[name]
    for y, z in zip(_call(name, *tensors), _call(name, *tensors, **by_hand), strict=True):
        np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-12)


def test_a_bound_that_is_never_reached_changes_nothing_and_a_narrow_one_does():
    tensors = [Tensor(x) for x in _arrays("gru")]
    free, wide, narrow = (_call("gru", *tensors, clip=bound)[0].numpy() for bound in (None, 1e6, 0.1))
    np.testing.assert_allclose(free, wide, rtol=1e-12)
    assert np.abs(free - narrow).max() > 0.05


def test_a_reset_before_the_product_has_the_gradients_of_its_formula():
    tensors = [Tensor(x) for x in _arrays("gru", 2, 1, 2, 2)]
    check_gradients(lambda *a: _call("gru", *a, reset_after=False)[0], *tensors, order=1)


def test_peepholes_look_at_the_cell():
    tensors = [Tensor(x) for x in _arrays("lstm", 2, 1, 2, 2)]
    look = Tensor(_numbers(9, 3, 2))
    check_gradients(lambda *a: _call("lstm", *a[:-1], peephole=a[-1])[0], *tensors, look, order=2, tolerance=2e-6)
    plain = _call("lstm", *tensors)[0].numpy()
    assert np.abs(plain - _call("lstm", *tensors, peephole=look)[0].numpy()).max() > 1e-3


def test_half_precision_stays_half():
    tensors = [Tensor(x.astype(np.float16)) for x in _arrays("lstm")]
    wide = [Tensor(x.numpy().astype(np.float64)) for x in tensors]
    y = _call("lstm", *tensors)[0]
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.numpy(), _call("lstm", *wide)[0].numpy(), atol=4e-3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: [a[0][0], *a[1:]], "time, batch, features"),
        (lambda a: [*a[:2], a[2][:-1], *a[3:]], "a recurrence of 4 gates"),
    ],
)
def test_shapes_that_do_not_fit_are_named(change, words):
    tensors = [Tensor(x) for x in _arrays("lstm")]
    with pytest.raises(ShapeError, match=words):
        ops.lstm(*change([tensors[0], None, *tensors[1:5]])[:1], None, *change(tensors)[1:5])


def test_lengths_for_another_batch_are_named():
    tensors = [Tensor(x) for x in _arrays("rnn")]
    with pytest.raises(ShapeError, match="one for each of the 3 rows"):
        _call("rnn", *tensors, lengths=[1, 2])


@pytest.mark.parametrize("name", _GATES)
def test_a_compiled_layer_serves_batches_of_any_size(name):
    _, *weights, _ = (Tensor(x) for x in _arrays(name))

    def run(x):
        found = getattr(ops, name)(x, None, *weights)
        return found[0]

    compiled = jit(run, capture_mode="trace", dynamic=True)
    for batch in (3, 5, 2):
        x = Tensor(_numbers(batch, 4, batch, 5))
        np.testing.assert_allclose(compiled(x).numpy(), run(x).numpy(), rtol=1e-12)
