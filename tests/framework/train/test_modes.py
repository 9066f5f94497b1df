"""A step in several parts, and compiled: the same training as in one part, eager."""

import numpy as np
import pytest
from mindscope.framework import Key, ShapeError, nn
from mindscope.framework.nn import Dense, SequentialCell
from mindscope.framework.optim import SGD, Adam, DynamicLossScaler
from mindscope.framework.train import TrainStep


def network(wide=4):
    return SequentialCell(Dense(3, wide, key=Key(0)), nn.GELU(), Dense(wide, 2, key=Key(1)))


def batch(rows=8, seed=0):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((rows, 3)).astype(np.float32), generator.integers(0, 2, rows)


def trained(steps=6, *, wide=4, scaler=None, clip_norm=None, loss_fn=None, **options):
    net = network(wide)
    loss_fn = nn.CrossEntropyLoss() if loss_fn is None else loss_fn
    step = TrainStep(net, loss_fn, Adam(net.trainable_params(), 0.05), scaler, clip_norm, **options)
    losses = [float(step(*batch(seed=number))) for number in range(steps)]
    return losses, [p.asnumpy() for p in net.get_parameters()], step


@pytest.mark.parametrize("jit", [True, "O0", "O1"])
@pytest.mark.parametrize("clip_norm", [None, 0.05])
@pytest.mark.parametrize("wide", [4, 700], ids=["small", "large"])
def test_a_compiled_step_trains_as_the_eager_one_does(jit, clip_norm, wide, monkeypatch):
    monkeypatch.setattr("mindscope.framework.train.train_step._SMALL", 1000)
    losses, weights, eager = trained(clip_norm=clip_norm, wide=wide)
    again, others, compiled = trained(clip_norm=clip_norm, wide=wide, jit=jit)
    np.testing.assert_allclose(again, losses, rtol=1e-5)
    for a, b in zip(weights, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert (compiled.gradient_norm is None) == (clip_norm is None)
    if clip_norm is not None:
        assert compiled.gradient_norm == pytest.approx(eager.gradient_norm, rel=1e-4)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 8])
def test_parts_of_a_batch_train_as_the_whole_does(jit, parts):
    losses, weights, _ = trained()
    again, others, _ = trained(micro_batches=parts, jit=jit)
    np.testing.assert_allclose(again, losses, rtol=1e-5)
    for a, b in zip(weights, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_scaled_loss_trains_as_a_plain_one_and_an_overflow_is_skipped(jit, parts):
    losses, weights, _ = trained()
    scaler = DynamicLossScaler(1024.0)
    again, others, step = trained(scaler=scaler, micro_batches=parts, jit=jit)
    np.testing.assert_allclose(again, losses, rtol=1e-5)
    for a, b in zip(weights, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    x, y = batch()
    before = [p.asnumpy() for p in step.network.get_parameters()]
    step(np.full_like(x, np.inf), y)
    assert scaler.loss_scale == 512.0
    for a, p in zip(before, step.network.get_parameters(), strict=True):
        np.testing.assert_array_equal(a, p.numpy())


@pytest.mark.parametrize("jit", [False, True])
def test_a_network_may_return_its_own_loss(jit):
    class WithLoss(nn.Cell):
        def __init__(self):
            super().__init__()
            self.net = network()

        def construct(self, x, y):
            return nn.CrossEntropyLoss()(self.net(x), y)

    net = WithLoss()
    step = TrainStep(net, None, Adam(net.trainable_params(), 0.05), jit=jit)
    losses = [float(step(*batch(seed=number))) for number in range(6)]
    np.testing.assert_allclose(losses, trained()[0], rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_dropout_draws_anew_in_every_step(jit):
    net = SequentialCell(Dense(3, 64, key=Key(0)), nn.Dropout(0.5), Dense(64, 2, key=Key(1)))
    step = TrainStep(net, nn.CrossEntropyLoss(), SGD(net.trainable_params(), 0.0), jit=jit)
    losses = [float(step(*batch())) for _ in range(4)]
    assert len(set(losses)) == 4


@pytest.mark.parametrize("jit", [False, True])
def test_running_statistics_follow_in_both_modes(jit):
    net = SequentialCell(Dense(3, 4, key=Key(0)), nn.BatchNorm1d(4), Dense(4, 2, key=Key(1)))
    step = TrainStep(net, nn.CrossEntropyLoss(), SGD(net.trainable_params(), 0.0), jit=jit)
    for _ in range(3):
        step(*batch())
    x, _ = batch()
    hidden = x @ net[0].weight.numpy().T + net[0].bias.numpy()
    np.testing.assert_allclose(net[1].running_mean.numpy(), (1 - 0.9**3) * hidden.mean(0), rtol=1e-4)


def test_gradients_of_a_compiled_step_are_on_the_parameters():
    _, _, step = trained(1, jit=True)
    _, _, eager = trained(1)
    for a, b in zip(step.optimizer.parameters, eager.optimizer.parameters, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: trained(micro_batches=0), ValueError, "micro_batches of 1 or more, got 0"),
        (lambda: trained(jit="O7"), ValueError, "False, True, 'O0' or 'O1', got 'O7'"),
        (lambda: trained(micro_batches=9), ShapeError, r"9 or more, got \(8, 3\), \(8,\)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
