"""Defences through the engine and PyTorch: the same steps, slow versions of the formulas, and what they are worth."""

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput, InvalidModel, wrap
from mindscope.armour.array_api import to_numpy
from mindscope.armour.defences import (
    Adversarial,
    DefendedTraining,
    Distillation,
    EnsembleAdversarial,
    FreeTraining,
    Inner,
    Trades,
    fast,
    robust_accuracy,
    single_step,
)
from mindscope.armour.defences.defence_recipes import divergence, log_softmax, mean_cross_entropy, soft_cross_entropy
from mindscope.armour.distances import DISTANCES
from mindscope.framework import nn, set_seed
from scipy.special import log_softmax as scipy_log_softmax
from sklearn.datasets import load_digits

from tests.armour.frameworks import MAKE, engine, inputs, logits, modes, parameters
from tests.armour.networks import data, linear, model

X = inputs(40)
Y = logits(X).argmax(axis=1)[::-1].copy()
Y[::3] = (Y[::3] + 1) % 3
INNER = Inner(0.1, steps=3)
RECIPES = {
    "pgd": Adversarial(INNER),
    "fast": Adversarial(fast(0.1)),
    "fgsm": Adversarial(single_step(0.1, "l2")),
    "natural": Adversarial(INNER, clean_share=0.3),
    "trades": Trades(INNER),
    "ensemble": EnsembleAdversarial(INNER, (wrap(engine()),)),
    "distillation": Distillation(wrap(nn.SequentialCell(nn.Flatten(), nn.Dense(12, 3)).set_train(False))),
}


def sgd(network, rate=0.1):
    if isinstance(network, nn.Cell):
        return nn.SGD(network.trainable_params(), rate)
    import torch

    return torch.optim.SGD(network.parameters(), rate)


def values(network):
    """All parameters as one vector; layers of torch keep their weights transposed, and last the hidden one's bias."""
    found = [value for value, _ in parameters(network)]
    if isinstance(network, nn.Cell):
        output, bias, hidden = found
        return np.concatenate([hidden.ravel(), output.ravel(), bias.ravel()])
    hidden, output, bias = found
    return np.concatenate([hidden.T.ravel(), output.T.ravel(), bias.ravel()])


def slope_of(loss, at, size=1e-6):
    """The gradient by central differences."""
    found = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[place] = size
        found[place] = (loss(at + step) - loss(at - step)) / (2 * size)
    return found


def test_losses_are_the_textbooks_and_their_gradients_those_of_differences():
    generator = np.random.default_rng(0)
    one, other = generator.standard_normal((2, 5, 4)) * 3
    labels = np.array([0, 3, 1, 1, 2])
    logs = scipy_log_softmax(one, axis=1)
    value, slope = mean_cross_entropy(one, labels)
    assert value == pytest.approx(-logs[np.arange(5), labels].mean())
    np.testing.assert_allclose(slope, slope_of(lambda z: mean_cross_entropy(z, labels)[0], one), atol=1e-8)
    soft = np.exp(scipy_log_softmax(other, axis=1))
    value, slope = soft_cross_entropy(one, soft, 7.0)
    assert value == pytest.approx(-(soft * scipy_log_softmax(one / 7, axis=1)).sum(axis=1).mean())
    np.testing.assert_allclose(slope, slope_of(lambda z: soft_cross_entropy(z, soft, 7.0)[0], one), atol=1e-8)
    value, to_one, to_other = divergence(one, other)
    expected = (np.exp(logs) * (logs - scipy_log_softmax(other, axis=1))).sum(axis=1).mean()
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(to_one, slope_of(lambda z: divergence(z, other)[0], one), atol=1e-8)
    np.testing.assert_allclose(to_other, slope_of(lambda z: divergence(one, z)[0], other), atol=1e-8)
    assert divergence(one, one)[0] == 0
    np.testing.assert_allclose(log_softmax(np.array([[1e4, 0.0]])), [[0.0, -1e4]])


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_on_a_linear_model_the_inner_search_finds_the_exact_worst_input(norm):
    network = linear(dtype=np.float64)
    x, y = data(network, 30, low=0.4, high=0.6, dtype=np.float64)
    worst = Inner(0.05, norm, steps=30, step_size=0.2).worst(model(network), x, y, (0, 0))
    towards = np.where(y == 0, 1, -1)[:, None] * (network.weight[:, 1] - network.weight[:, 0])
    rise = ((worst - x) * towards).sum(axis=1)
    dual = {"linf": np.abs(towards).sum(1), "l2": np.sqrt((towards**2).sum(1)), "l1": np.abs(towards).max(1)}[norm]
    np.testing.assert_allclose(rise, 0.05 * dual, rtol=0.01)
    assert (DISTANCES[norm].measure(x, worst) <= 0.05 * (1 + 1e-9)).all()


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_engine_and_torch_learn_the_same_and_keep_their_modes(recipe):
    found = []
    for make in MAKE.values():
        network = make()
        before = modes(network)
        training = DefendedTraining(network, sgd(network), recipe, weight_perturbation=0.01, seed=3)
        steps = [training.step(X, Y) for _ in range(3)]
        assert modes(network) == before
        found.append((values(network), [step.loss for step in steps]))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=2e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4)
    assert np.abs(found[0][0] - values(engine())).max() > 1e-4


def mean_loss(network, x):
    return float(np.mean(-scipy_log_softmax(network(x), axis=1)[np.arange(len(x)), Y]))


def test_a_step_is_the_gradient_at_the_worst_inputs():
    """The slow version: the inputs by an attack that does not stop, the gradient by differences of the weights."""
    network = MAKE["engine"]()
    start = [value for value, _ in parameters(network)]
    recipe = Adversarial(Inner(0.1, steps=2, random_start=False))
    worst = to_numpy(recipe.inner.worst(wrap(engine()), X, Y, (0, 0))).astype(np.float64).reshape(40, 12)
    DefendedTraining(network, sgd(network, 0.5), recipe).step(X, Y)
    output, bias, hidden = (value.astype(np.float64) for value in start)

    def loss(weight):
        return mean_loss(lambda x: np.maximum(x @ hidden, 0) @ weight + bias, worst)

    expected = output - 0.5 * slope_of(loss, output)
    np.testing.assert_allclose(next(v for v, _ in parameters(network)), expected, atol=1e-5)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_the_gradient_of_perturbed_weights_is_taken_there_and_the_weights_come_back(make):
    gamma, rate = 0.02, 1e-3
    plain, moved, by_hand = make(), make(), make()
    recipe = Adversarial(Inner(0.1, steps=2, random_start=False))
    DefendedTraining(plain, sgd(plain, 1.0), recipe).step(X, Y)
    gradient = values(make()) - values(plain)
    start = values(make())
    far = start.copy()
    for part in (slice(0, 192), slice(192, 240)):  # the two matrices; the bias stays
        far[part] += gamma * np.linalg.norm(start[part]) * gradient[part] / np.linalg.norm(gradient[part])
    write(by_hand, far)
    model_ = wrap(make())
    lesson = recipe.lesson(model_, model_.native(X), model_.native(Y), (0, 0))
    DefendedTraining(by_hand, sgd(by_hand, rate), Fixed(lesson)).step(X, Y)
    DefendedTraining(moved, sgd(moved, rate), recipe, weight_perturbation=gamma).step(X, Y)
    np.testing.assert_allclose(values(moved) - start, values(by_hand) - far, atol=2e-7)
    assert np.abs((values(moved) - start) - (values(plain) - start) * rate).max() > 1e-5


class Fixed:
    """The same lesson whatever the model."""

    def __init__(self, lesson):
        self._lesson = lesson

    def lesson(self, *_):
        return self._lesson


def write(network, vector):
    hidden, output, bias = vector[:192].reshape(12, 16), vector[192:240].reshape(16, 3), vector[240:]
    if isinstance(network, nn.Cell):
        for parameter, value in zip(network.get_parameters(), (output, bias, hidden), strict=True):
            parameter.set_data(value.astype(np.float32))
        return
    import torch

    with torch.no_grad():
        for parameter, value in zip(network.parameters(), (hidden.T, output.T, bias), strict=True):
            parameter.copy_(torch.from_numpy(value.astype(np.float32)))


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_free_training_replays_and_carries_the_perturbation_on(make):
    network = make()
    training = FreeTraining(network, sgd(network, 0.0), 0.1, replays=2)
    rate_zero = [training.step(X, Y).loss for _ in range(3)]  # the weights stay, the perturbation grows
    assert rate_zero[0] < rate_zero[1] <= rate_zero[2] + 1e-6
    worst = Inner(0.1, steps=6, step_size=1.0, random_start=False).worst(wrap(engine()), X, Y, (0,))
    expected = mean_loss(logits, worst)
    assert rate_zero[2] == pytest.approx(expected, rel=0.05)
    other = make()
    training = FreeTraining(other, sgd(other), 0.1, replays=3)
    losses = [training.step(X, Y).loss for _ in range(8)]
    assert losses[-1] < losses[0]
    assert training.step(X[:7], Y[:7]).loss > 0  # a last batch that is smaller


def digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int64)
    return x[:1200], y[:1200], x[1200:1500], y[1200:1500]


def trained(recipe, epochs=6, **options):
    x, y, *_ = digits()
    set_seed(1)
    network = nn.SequentialCell(nn.Dense(64, 64), nn.ReLU(), nn.Dense(64, 10)).set_train()
    training = DefendedTraining(network, nn.Adam(network.trainable_params(), 0.01), recipe, **options)
    generator = np.random.default_rng(1)
    for _ in range(epochs):
        order = generator.permutation(len(x))
        for start in range(0, len(x), 100):
            rows = order[start : start + 100]
            step = training.step(x[rows], y[rows])
    assert training.steps == epochs * 12
    return network, step


def test_a_defended_model_of_digits_withstands_what_fells_an_undefended_one():
    *_, x, y = digits()
    left = {}
    for name, recipe in (
        ("none", Adversarial(Inner(1e-6, steps=1))),
        ("adversarial", Adversarial(fast(0.15))),
        ("trades", Trades(Inner(0.15, steps=2, step_size=0.7))),
    ):
        network, step = trained(recipe)
        assert 0.2 < step.robust_accuracy <= 1
        left[name] = robust_accuracy(wrap(network.set_train(False)), PGD(steps=20), x, y, 0.15)
    assert min(left["adversarial"], left["trades"]) > left["none"] + 0.2


def test_what_makes_no_sense_is_named():
    for wrong, message in (
        (lambda: Inner(0.0), "epsilon and step_size above 0"),
        (lambda: Inner(0.1, steps=0), "1 step or more"),
        (lambda: Adversarial(INNER, clean_share=1.0), "clean_share expects 0 or more and below 1"),
        (lambda: Trades(single_step(0.1)), "random_start=True"),
        (lambda: Trades(INNER, beta=0.0), "beta above 0"),
        (lambda: EnsembleAdversarial(INNER, ()), "one wrapped model or more"),
        (lambda: Distillation(wrap(engine()), 0.0), "temperature above 0"),
        (lambda: DefendedTraining(engine(), None, Adversarial(INNER), weight_perturbation=1.0), "below 1"),
        (lambda: FreeTraining(engine(), None, 0.1, replays=0), "1 replay or more"),
    ):
        with pytest.raises(InvalidInput, match=message):
            wrong()
    network = engine()
    training = DefendedTraining(network, sgd(network), Adversarial(INNER))
    with pytest.raises(InvalidInput, match="one integer class for each"):
        training.step(X, Y[:5])
    with pytest.raises(InvalidInput, match=r"values within \[0, 1\]"):
        training.step(X * np.nan, Y)
    with pytest.raises(InvalidModel, match="engine Cell, a torch Module"):
        DefendedTraining("net", None, Adversarial(INNER))
