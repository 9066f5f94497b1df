"""Recurrent layers and cells: PyTorch as a witness, layers as loops over cells, refusals in words."""

import numpy as np
import pytest
from mindscope.framework import Key, ShapeError, Tensor, nn

torch = pytest.importorskip("torch")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def twin(kind, layer, **options):
    theirs = getattr(torch.nn, kind)(layer.input_size, layer.hidden_size, **options).double()
    with torch.no_grad():
        for mine, other in zip(layer.get_parameters(), theirs.parameters(), strict=True):
            other.copy_(torch.tensor(mine.asnumpy()))
    return theirs


def states(kind, *shape):
    h, c = normal(*shape, seed=1), normal(*shape, seed=2)
    return (h, c) if kind == "LSTM" else h


def as_parts(state, make):
    return tuple(map(make, state)) if isinstance(state, tuple) else make(state)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_layer_agrees_with_pytorch(kind, layers, both, batch_first):
    options = {"num_layers": layers, "bidirectional": both, "batch_first": batch_first}
    layer = getattr(nn, kind)(3, 4, **options, key=Key(0), dtype=np.float64)
    theirs = twin(kind, layer, **options)
    x = normal(5, 2, 3) if not batch_first else normal(2, 5, 3)
    start = states(kind, layers * (2 if both else 1), 2, 4)
    mine, other = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, last = layer(mine, as_parts(start, Tensor))
    z, end = theirs(other, as_parts(start, torch.tensor))
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-9, atol=1e-11)
    for a, b in zip(*((s if isinstance(s, tuple) else (s,)) for s in (last, end)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)
    (y * y).sum().backward()
    (z * z).sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-8, atol=1e-10)
    for a, b in zip(layer.get_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_a_layer_is_a_loop_over_its_cell(kind):
    layer = getattr(nn, kind)(3, 4, key=Key(0), dtype=np.float64)
    cell = getattr(nn, f"{kind}Cell")(3, 4, key=Key(1), dtype=np.float64)
    for a, b in zip(cell.get_parameters(), layer.get_parameters(), strict=True):
        a.set_data(b.numpy())
    x = normal(5, 2, 3)
    y, _ = layer(Tensor(x))
    state = None
    for step in range(5):
        state = cell(Tensor(x[step]), state)
        h = state[0] if isinstance(state, tuple) else state
        np.testing.assert_allclose(h.numpy(), y.numpy()[step], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_what_lies_behind_the_end_of_a_sequence_changes_nothing(kind):
    layer = getattr(nn, kind)(3, 4, 2, bidirectional=True, key=Key(0), dtype=np.float64)
    x = normal(5, 2, 3)
    changed = x.copy()
    changed[3:, 1] = 9.0
    lengths = Tensor(np.array([5, 3]))
    first, second = (layer(Tensor(values), None, lengths)[0].numpy() for values in (x, changed))
    np.testing.assert_array_equal(first, second)
    assert not first[3:, 1].any()


def test_what_does_not_fit_is_refused_in_words():
    with pytest.raises(ShapeError, match=r"LSTM expects input \(time, batch, 3\), got \(5, 2, 4\)"):
        nn.LSTM(3, 4)(Tensor(np.zeros((5, 2, 4), np.float32)))
    with pytest.raises(ShapeError, match=r"GRUCell expects input \(batch, 3\), got \(2, 4\)"):
        nn.GRUCell(3, 4)(Tensor(np.zeros((2, 4), np.float32)))
    with pytest.raises(ValueError, match="nonlinearity tanh or relu, got 'selu'"):
        nn.RNN(3, 4, nonlinearity="selu")
    with pytest.raises(ValueError, match="hidden_size of 1 or more, got 0"):
        nn.LSTMCell(3, 0)
