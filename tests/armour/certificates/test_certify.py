"""Bounds of networks against the exact answer of a mixed integer program, against sampling, and against each other."""

import numpy as np
import pytest
from mindscope.armour import InvalidInput, InvalidModel
from mindscope.armour.certificates import certified_radius, certify
from mindscope.framework import Key, Tensor, nn, ops
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.armour.frameworks import engine, inputs, logits

METHODS = ("ibp", "crown")


def tiny(seed=0, hidden=5):
    """A network of 2 inputs, `hidden` and `hidden` units, 3 classes."""
    keys = [Key(seed * 10 + i) for i in range(3)]
    sizes = [(2, hidden), (hidden, hidden), (hidden, 3)]
    layers = [nn.Dense(a, b, weight_init=nn.Normal(1.0), key=key) for (a, b), key in zip(sizes, keys, strict=True)]
    return nn.SequentialCell(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


def exact_margin(net, low, high, label, other):
    """The smallest logit difference over a box, by HiGHS: one binary variable a unit, big-M from interval bounds."""
    layers = [(c.weight.numpy().astype(float), c.bias.numpy().astype(float)) for c in net if isinstance(c, nn.Dense)]
    lower, upper, integral = [*low], [*high], [0] * len(low)
    rows, lows, highs = [], [], []
    before = list(range(len(low)))
    for weight, bias in layers[:-1]:
        centre, radius = (
            np.array([lower[i] + upper[i] for i in before]) / 2,
            np.array([upper[i] - lower[i] for i in before]) / 2,
        )
        a, b = weight @ centre + bias - abs(weight) @ radius, weight @ centre + bias + abs(weight) @ radius
        after = []
        for unit in range(len(bias)):
            h, z = len(lower), len(lower) + 1
            lower += [0.0, 0.0]
            upper += [max(b[unit], 0.0), 1.0]
            integral += [0, 1]
            w = dict(zip(before, weight[unit], strict=True))
            for terms, floor, ceiling in (
                ({h: 1.0, **{i: -v for i, v in w.items()}}, bias[unit], np.inf),
                ({h: 1.0, z: -a[unit], **{i: -v for i, v in w.items()}}, -np.inf, bias[unit] - a[unit]),
                ({h: 1.0, z: -b[unit]}, -np.inf, 0.0),
            ):
                rows.append(terms)
                lows.append(floor)
                highs.append(ceiling)
            after.append(h)
        before = after
    matrix = np.zeros((len(rows), len(lower)))
    for number, terms in enumerate(rows):
        for column, value in terms.items():
            matrix[number, column] = value
    weight, bias = layers[-1]
    cost = np.zeros(len(lower))
    cost[before] = weight[label] - weight[other]
    found = milp(
        cost, constraints=LinearConstraint(matrix, lows, highs), bounds=Bounds(lower, upper), integrality=integral
    )
    assert found.success, found.message
    return found.fun + bias[label] - bias[other]


@pytest.mark.parametrize("seed", range(4))
def test_certificates_are_at_most_the_exact_margin_and_crown_is_closer(seed):
    net = tiny(seed)
    x = np.random.default_rng(seed).uniform(0.1, 0.9, (3, 2))
    labels = net(Tensor(x.astype(np.float32))).numpy().argmax(axis=1)
    epsilons = (0.0, 0.02, 0.1, 0.3)
    found = {method: certify(net, x, labels, epsilons, method=method).margins for method in METHODS}
    for k, epsilon in enumerate(epsilons):
        for n, (sample, label) in enumerate(zip(x, labels, strict=True)):
            low, high = np.clip(sample - epsilon, 0, 1), np.clip(sample + epsilon, 0, 1)
            exact = min(exact_margin(net, low, high, label, c) for c in range(3) if c != label)
            assert found["ibp"][k, n] <= exact + 1e-6
            assert found["crown"][k, n] <= exact + 1e-6
            if epsilon <= 0.02:
                assert found["crown"][k, n] >= exact - 0.25 * (1 + abs(exact))
    assert (found["crown"] >= found["ibp"] - 1e-9).all()
    assert found["crown"].mean() > found["ibp"].mean()


def test_the_interval_of_a_difference_is_not_the_difference_of_intervals():
    net = tiny(1)
    x, epsilon = np.array([[0.4, 0.6], [0.2, 0.7]]), 0.1
    labels = net(Tensor(x.astype(np.float32))).numpy().argmax(axis=1)
    found = certify(net, x, labels, epsilon, method="ibp").margins[0]
    layers = [(c.weight.numpy().astype(float), c.bias.numpy().astype(float)) for c in net if isinstance(c, nn.Dense)]
    for sample, label, margin in zip(x, labels, found, strict=True):
        low, high = sample - epsilon, sample + epsilon
        for weight, bias in layers[:-1]:
            centre, radius = weight @ (low + high) / 2 + bias, abs(weight) @ (high - low) / 2
            low, high = np.maximum(centre - radius, 0), np.maximum(centre + radius, 0)
        weight, bias = layers[-1]
        rows = [(weight[label] - weight[c], bias[label] - bias[c]) for c in range(3) if c != label]
        merged = min(row @ (low + high) / 2 - abs(row) @ (high - low) / 2 + constant for row, constant in rows)
        assert margin == pytest.approx(merged, abs=1e-5)
        centre, radius = weight @ (low + high) / 2 + bias, abs(weight) @ (high - low) / 2
        apart = min((centre - radius)[label] - (centre + radius)[c] for c in range(3) if c != label)
        assert margin > apart + 1e-3


def image_net():
    """Convolution, normalization, pooling of both kinds, a residual branch, a threshold."""

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 3, 3, key=Key(1))
            self.norm = nn.BatchNorm2d(3)
            self.norm.running_mean.set_data(Tensor(np.array([0.1, -0.2, 0.0], np.float32)))
            self.branch = nn.Conv2d(3, 3, 3, stride=1, has_bias=False, key=Key(2))
            self.pool, self.mean = nn.MaxPool2d(2), nn.AvgPool2d(2)
            self.flat, self.head = nn.Flatten(), nn.Dense(12, 3, key=Key(3))

        def construct(self, x):
            x = ops.relu(self.norm(self.conv(x * 2.0 - 0.5)))
            x = self.pool(ops.maximum(x + self.branch(x), 0.1))
            return self.head(self.flat(-self.mean(x)) / 0.5)

    return Net()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_sampled_point_is_below_the_bound_of_a_branching_image_network(method, norm):
    net, generator = image_net(), np.random.default_rng(0)
    x = generator.uniform(0, 1, (2, 1, 8, 8))
    labels = net(Tensor(x.astype(np.float32))).numpy().argmax(axis=1)
    for epsilon in (0.0, 0.05):
        margins = certify(net, x, labels, epsilon, norm=norm, method=method).margins[0]
        for sample, label, margin in zip(x, labels, margins, strict=True):
            noise = generator.choice([-1.0, 0.0, 1.0], (300, 1, 8, 8))
            if norm == "l2":
                noise /= np.maximum(np.sqrt((noise**2).sum(axis=(1, 2, 3), keepdims=True)), 1e-9)
            z = net(Tensor(np.clip(sample + epsilon * noise, 0, 1).astype(np.float32))).numpy()
            seen = np.min(z[:, [label]] - np.delete(z, label, axis=1))
            assert margin <= seen + 1e-5
            if epsilon == 0:
                assert margin == pytest.approx(seen, abs=1e-5)


def test_crown_of_a_linear_network_is_exact_in_both_norms():
    net = nn.SequentialCell(nn.Dense(6, 2, key=Key(5)))
    x = np.full((1, 6), 0.5)
    difference = (net[0].weight.numpy()[0] - net[0].weight.numpy()[1]).astype(float)
    clean = x @ difference + float(net[0].bias.numpy()[0] - net[0].bias.numpy()[1])
    label = np.array([0])
    for norm, dual in (("linf", np.abs(difference).sum()), ("l2", np.linalg.norm(difference))):
        found = certify(net, x, label, 0.2, norm=norm).margins[0]
        np.testing.assert_allclose(found, clean - 0.2 * dual, rtol=1e-6)


def test_the_radius_is_proven_and_a_little_more_is_not():
    net, x = engine(), inputs(4)
    labels = logits(x).argmax(axis=1)
    radii = certified_radius(net, x, labels, most=0.5)
    for sample, label, radius in zip(x, labels, radii, strict=True):
        assert certify(net, sample[None], [label], radius).accuracy[0] == 1
        assert certify(net, sample[None], [label], radius + 1e-3).accuracy[0] == 0
    assert radii.min() > 0
    wrong = certified_radius(net, x, (labels + 1) % 3)
    assert (wrong == 0).all()


def test_accuracy_falls_with_the_budget():
    x = inputs(6)
    found = certify(engine(), x, logits(x).argmax(axis=1), [0.0, 0.01, 0.1, 0.5])
    assert found.accuracy[0] == 1
    assert (np.diff(found.accuracy) <= 0).all()
    assert found.is_certified.shape == (4, 6)


def test_what_cannot_be_certified_is_named():
    x, y = inputs(2), np.array([0, 1])
    with pytest.raises(InvalidModel, match=r"expect an engine Cell or a torch Module, got function"):
        certify(logits, x, y, 0.1)
    with pytest.raises(InvalidModel, match="for the primitive 'tanh'"):
        certify(nn.SequentialCell(nn.Flatten(), nn.Tanh(), nn.Dense(12, 3)), x, y, 0.1)
    with pytest.raises(InvalidModel, match="in training mode; call set_train"):
        certify(engine().set_train(True), x, y, 0.1)

    class Peeking(nn.Cell):
        def construct(self, x):
            return x.reshape(1, 12)[:, :3] * float(x.sum().numpy())

    with pytest.raises(InvalidModel, match="reads values of its input"):
        certify(Peeking(), x, y, 0.1)
    for arguments, words in (
        ((x * 3, y, 0.1), "x expects values within bounds"),
        ((x, [0, 9], 0.1), "y expects classes 0 to 2, got 0 to 9"),
        ((x, y, -0.1), "epsilons expects finite budgets"),
        ((x * np.nan, y, 0.1), "x expects finite samples"),
    ):
        with pytest.raises(InvalidInput, match=words):
            certify(engine(), *arguments)
    with pytest.raises(InvalidInput, match="method expects one of ibp, crown, got 'milp'"):
        certify(engine(), x, y, 0.1, method="milp")
