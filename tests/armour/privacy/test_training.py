"""Private steps: clipping, noise and account, through the engine and through torch."""

import math

import numpy as np
import pytest
from mindscope.armour import InvalidInput, InvalidModel
from mindscope.armour.privacy import (
    AdaptiveClipping,
    AdaptiveGaussian,
    FixedClipping,
    Gaussian,
    Phase,
    PrivateTraining,
    epsilon,
)
from mindscope.armour.privacy.per_sample_gradients import per_sample
from mindscope.framework import Tensor, nn, value_and_grad

from tests.armour.frameworks import MAKE, engine, inputs, logits, parameters, torch_module

each_framework = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
X = inputs(40)
Y = logits(X).argmax(axis=1)[::-1].copy()  # wrong on purpose, so that there is a gradient


def sgd(model, rate=0.1):
    if isinstance(model, nn.Cell):
        return nn.SGD(model.trainable_params(), rate)
    import torch

    return torch.optim.SGD(model.parameters(), rate)


def slow_gradients(make):
    """One backward pass of the engine a sample, in the order and the layout of the framework's own parameters."""
    cell, x, y = engine(), X, Y
    loss = nn.CrossEntropyLoss()
    go = value_and_grad(lambda a, b: loss(cell(a), b), None, cell.trainable_params())
    found = [[g.numpy() for g in go(Tensor(x[i : i + 1]), Tensor(y[i : i + 1]))[1]] for i in range(len(x))]
    if make is torch_module:  # which keeps the weight of a linear layer transposed
        return [[hidden.T, output.T, bias] for output, bias, hidden in found]
    return found


def clipped_mean(gradients, norm, batch):
    total = [np.zeros(g.shape) for g in gradients[0]]
    for sample in gradients:
        length = math.sqrt(sum(float(np.sum(g.astype(float) ** 2)) for g in sample))
        for sum_, g in zip(total, sample, strict=True):
            sum_ += g * min(1.0, norm / length)
    return [t / batch for t in total]


@each_framework
def test_gradients_of_all_samples_at_once_are_those_of_one_after_another(make):
    losses, found = per_sample(make()).gradients(X, Y)
    expected = slow_gradients(make)
    for i in (0, 7, 39):
        for g, e in zip(found, expected[i], strict=True):
            np.testing.assert_allclose(g[i], e, atol=2e-6)
    rows = np.arange(len(X))
    z = logits(X).astype(float)
    np.testing.assert_allclose(losses, np.log(np.exp(z).sum(1)) - z[rows, Y], rtol=1e-4, atol=1e-5)


@each_framework
def test_without_noise_to_speak_of_a_step_is_that_of_clipped_gradients(make):
    model = make()
    before = [value for value, _ in parameters(model)]
    training = PrivateTraining(
        model, sgd(model), Gaussian(1e-9), sample_rate=1.0, population=40, clipping=FixedClipping(0.5), chunk=7, seed=0
    )
    report = training.step(X, Y)
    expected = clipped_mean(slow_gradients(make), 0.5, 40)
    for old, (new, _), g in zip(before, parameters(model), expected, strict=True):
        np.testing.assert_allclose(new, old - 0.1 * g, atol=1e-6)
    lengths = [math.sqrt(sum(float((g**2).sum()) for g in s)) for s in slow_gradients(make)]
    assert report.clipped_share == pytest.approx(np.mean(np.array(lengths) > 0.5))
    assert report.samples == 40


@each_framework
def test_the_noise_has_the_promised_size_also_on_an_empty_batch(make):
    model = make()
    before = np.concatenate([value.ravel() for value, _ in parameters(model)])
    training = PrivateTraining(
        model, sgd(model, 1.0), Gaussian(2.0), sample_rate=0.5, population=20, clipping=FixedClipping(3.0), seed=1
    )
    report = training.step(X[:0], Y[:0])
    moved = np.concatenate([value.ravel() for value, _ in parameters(model)]) - before
    assert moved.std() == pytest.approx(2.0 * 3.0 / 10, rel=4 / math.sqrt(2 * len(moved)))
    assert math.isnan(report.loss)
    assert report.samples == 0


def test_one_sample_moves_the_sum_by_no_more_than_the_norm():
    steps = []
    for x, y in ((X, Y), (X[:-1], Y[:-1])):
        again = engine()
        PrivateTraining(
            again, sgd(again, 1.0), Gaussian(1e-9), sample_rate=1.0, population=1, clipping=FixedClipping(0.3), seed=0
        ).step(x, y)
        steps.append(np.concatenate([p.asnumpy().ravel() for p in again.get_parameters()]))
    assert np.linalg.norm(steps[0] - steps[1]) <= 0.3 * (1 + 1e-4)


def test_training_learns_and_the_ledger_knows_what_it_spent():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((600, 5)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
    net = nn.SequentialCell(nn.Dense(5, 2))
    training = PrivateTraining(net, sgd(net, 1.0), Gaussian(1.0), sample_rate=0.1, population=600, seed=3)
    sizes = [training.step(x[rows], y[rows]).samples for rows in training.batches(60)]
    assert np.mean(net(Tensor(x)).numpy().argmax(1) == y) > 0.9
    assert abs(np.mean(sizes) - 60) < 4 * math.sqrt(600 * 0.1 * 0.9 / 60)
    assert training.epsilon(1e-4) == epsilon([Phase(1.0, 0.1, 60)], 1e-4)


def test_falling_noise_is_accounted_step_by_step():
    noise = AdaptiveGaussian(2.0, 0.5, least=0.9)
    assert [noise.multiplier(t) for t in (0, 1, 2, 9)] == [2.0, 2 / 1.5, 1.0, 0.9]
    assert AdaptiveGaussian(2.0, 0.1, "exponential").multiplier(3) == pytest.approx(2 * math.exp(-0.3))
    model = engine()
    training = PrivateTraining(model, sgd(model), noise, sample_rate=0.5, population=40, seed=0)
    for rows in training.batches(3):
        training.step(X[rows], Y[rows])
    assert training.ledger.phases == tuple(Phase(s, 0.5) for s in (2.0, 2 / 1.5, 1.0))


def test_adaptive_clipping_settles_at_the_quantile_and_pays_for_the_count():
    generator = np.random.default_rng(0)
    lengths = generator.lognormal(1.0, 0.5, 4000)
    clipping = AdaptiveClipping(norm=0.1, quantile=0.7, count_noise=20.0)
    for _ in range(200):
        rows = generator.random(4000) < 0.1
        below = int(np.sum(lengths[rows] <= clipping.norm))
        clipping = clipping.after(below, int(rows.sum()), 400.0, generator)
    assert clipping.norm == pytest.approx(np.quantile(lengths, 0.7), rel=0.1)
    larger = clipping.gradient_noise(1.0)
    assert larger**-2 + (2 * 20.0) ** -2 == pytest.approx(1.0)
    with pytest.raises(InvalidInput, match="spends more than a noise_multiplier of 20 allows"):
        AdaptiveClipping(count_noise=5.0).gradient_noise(20)


@each_framework
def test_adaptive_clipping_runs_in_training(make):
    model = make()
    training = PrivateTraining(
        model, sgd(model), Gaussian(1.0), sample_rate=1.0, population=40, clipping=AdaptiveClipping(1e-3), seed=0
    )
    first = training.step(X, Y)
    for _ in range(10):
        last = training.step(X, Y)
    assert first.clipped_share == 1.0
    assert last.clipping_norm > 1.5 * first.clipping_norm


def test_what_cannot_be_trained_privately_is_named():
    net = nn.SequentialCell(nn.Dense(4, 4), nn.BatchNorm1d(4))
    with pytest.raises(InvalidModel, match=r"samples do not mix, got a BatchNorm1d.*GroupNorm"):
        PrivateTraining(net, sgd(net), Gaussian(1.0), sample_rate=0.1, population=10)
    with pytest.raises(InvalidModel, match=r"an engine Cell or a torch Module, got builtins\.list"):
        per_sample([])
    with pytest.raises(InvalidModel, match="ReLU has no trainable parameter"):
        per_sample(nn.ReLU())
    model = engine()
    training = PrivateTraining(model, sgd(model), Gaussian(1.0), sample_rate=0.5, population=40, seed=0)
    with pytest.raises(InvalidInput, match="got 3 and 2"):
        training.step(X[:3], Y[:2])
    broken = X.copy()
    broken[4] = np.nan
    with pytest.raises(InvalidInput, match="expects finite gradients, got 1 samples"):
        training.step(broken, Y)
    assert training.ledger.phases == ()
    with pytest.raises(InvalidInput, match="sample_rate expects"):
        PrivateTraining(model, sgd(model), Gaussian(1.0), sample_rate=2.0, population=40)
