"""Attacks that see logits or decisions alone, judged by exact answers of linear models and by what they may ask."""

import numpy as np
import pytest
from mindscope.armour import ATTACKS, FGSM, PGD, InvalidInput
from mindscope.armour.attacks.decision_based import Spatial
from mindscope.armour.distances import DISTANCES
from mindscope.armour.distances.boundary_steps import step_to_hyperplane
from scipy.ndimage import affine_transform

from tests.armour.attacks.cases import light
from tests.armour.networks import ClosedForm, data, linear, model, perceptron

BLACK_BOX = {name: entry for name, entry in sorted(ATTACKS.items()) if entry.asks != "gradients"}
CASES = [(name, norm) for name, entry in BLACK_BOX.items() for norm in entry.norms]
each_black_box = pytest.mark.parametrize(("name", "norm"), CASES, ids=[f"{name}-{norm}" for name, norm in CASES])


class NoGradients(ClosedForm):
    """A linear classifier that lets nobody differentiate it, and counts the inputs that it has seen."""

    seen = 0

    def logits(self, x):
        self.seen += len(x)
        return (x.reshape(len(x), -1) @ self.weight + self.bias).astype(x.dtype)

    def pullback(self, x, cotangent):
        raise AssertionError("asked for a gradient")

    pullbacks = pullback


@each_black_box
def test_no_gradient_is_asked_for_and_every_query_is_counted(name, norm):
    source = linear()
    network = NoGradients(source.weight, source.bias)
    x, y = data(network, 20)
    network.seen = 0
    result = light(name, norm)(model(network), x, y, epsilons=None if BLACK_BOX[name].make.finds_minimum else [0.2])
    assert result.gradient_calls.sum() == 0
    beside = 16 + 20 + 20  # the checks of the samples, and the verdict at the end
    assert result.queries.sum() == network.seen - beside


@each_black_box
def test_a_distribution_is_walked_towards_its_target(name, norm):
    """Three classes of equal size, so that there are examples of each target to begin with."""
    weight = np.eye(3)[:, [0, 1, 2]].repeat(2, axis=0)
    network = ClosedForm(weight.astype(np.float32), np.zeros(3, np.float32))
    x, y = data(network, 30, (6,))
    result = light(name, norm)(model(network), x, y, targets=(y + 1) % 3, epsilons=None)
    given = network.logits(result.adversarials[0]).argmax(axis=1)
    assert (given[result.success[0]] == ((y + 1) % 3)[result.success[0]]).all()
    assert result.success.mean() >= (0.0 if name == "spatial" else 0.8)


@pytest.mark.parametrize("name", ["nes", "spsa", "genetic", "pso"])
def test_a_guessed_gradient_leaves_the_exact_robust_accuracy_of_a_linear_model(name):
    network = linear(dtype=np.float64)
    x, y = data(network, 40, dtype=np.float64)
    exact = FGSM()(model(network), x, y, epsilons=[0.1]).success
    options = {"nes": {"steps": 25}, "spsa": {"steps": 30, "pairs": 16}, "genetic": {}, "pso": {}}[name]
    attack = ATTACKS[name].make(**{"generations": 150} if name == "genetic" else options)
    found = attack(model(network), x, y, epsilons=[0.1]).success
    assert not (found & ~exact).any()
    assert (found == exact).mean() >= (0.95 if name == "pso" else 1.0)


@pytest.mark.parametrize(
    ("name", "norm", "options", "median"),
    [
        ("boundary", "l2", {"steps": 800}, 1.01),
        ("hop-skip-jump", "l2", {"steps": 12}, 1.02),
        ("hop-skip-jump", "linf", {"steps": 12}, 1.02),
    ],
)
def test_decisions_alone_come_near_the_exact_distance(name, norm, options, median):
    network = linear(dtype=np.float64)
    x, y = data(network, 30, low=-0.2, high=1.2, dtype=np.float64)
    x = np.clip(x, 0, 1)
    y = network.logits(x).argmax(axis=1)
    slope = np.where(y[:, None] == 0, 1.0, -1.0) * (network.weight[:, 1] - network.weight[:, 0])
    gap = np.abs(np.diff(network.logits(x), axis=1)[:, 0])
    exact = DISTANCES[norm].measure(x, x + step_to_hyperplane(norm, x, slope, gap, (0.0, 1.0)))
    ratio = ATTACKS[name].make(norm=norm, **options)(model(network), x, y, epsilons=None).minimum_norms / exact
    assert ratio.min() >= 1 - 1e-9
    assert np.median(ratio) <= median


def fewest_changes(network, x, y):
    """Exactly how many elements must change: those that help most, each to the end of the box that helps."""
    towards = np.where(y[:, None] == 0, 1.0, -1.0) * (network.weight[:, 1] - network.weight[:, 0])
    gains = np.sort(np.maximum(towards * (1 - x), -towards * x), axis=1)[:, ::-1]
    gap = np.abs(np.diff(network.logits(x), axis=1)[:, 0])
    return (gains.cumsum(axis=1) <= gap[:, None]).sum(axis=1) + 1


@pytest.mark.parametrize("name", ["salt-and-pepper", "pointwise"])
def test_changes_are_counted_and_never_fewer_than_needed(name):
    network = linear(dtype=np.float64)
    x, y = data(network, 60, dtype=np.float64)
    exact = fewest_changes(network, x, y)
    found = ATTACKS[name].make(norm="l0")(model(network), x, y, epsilons=None)
    assert found.success.all()
    assert (found.minimum_norms >= exact).all()
    assert np.mean(found.minimum_norms == exact) > 0.6


def test_pointwise_leaves_no_element_that_could_be_put_back():
    network = perceptron()
    x, y = data(network, 30)
    result = ATTACKS["pointwise"].make()(model(network), x, y, epsilons=None)
    assert result.success.any()
    for row in np.flatnonzero(result.success[0]):
        example = result.adversarials[0][row]
        for element in np.flatnonzero(example != x[row]):
            without = example.copy()
            without[element] = x[row, element]
            assert network.logits(without[None]).argmax() == y[row]


def test_noise_has_the_whole_budget_and_finds_less_than_a_search():
    network = perceptron()
    x, y = data(network, 100, low=0.2, high=0.8)
    for norm, epsilon in (("linf", 0.1), ("l2", 0.19), ("l1", 0.19)):  # no element reaches the box
        for kind in ("uniform", "gaussian"):
            noise = ATTACKS["plain-noise"].make(norm=norm, kind=kind)(model(network), x, y, epsilons=[epsilon])
            np.testing.assert_allclose(noise.distances, epsilon, rtol=1e-3)
            if norm != "l1":
                assert noise.success.sum() < PGD(norm=norm)(model(network), x, y, epsilons=[epsilon]).success.sum()
    with pytest.raises(InvalidInput, match="kind uniform or gaussian, got 'pink'"):
        ATTACKS["plain-noise"].make(kind="pink")


@pytest.mark.parametrize(("turn", "share"), [(0.0, 0.25), (90.0, 0.0), (17.0, 0.0), (-25.0, 0.2)])
def test_pictures_are_moved_as_scipy_moves_them(turn, share):
    """With one turn and one shift each way the grid holds the extremes; every kept picture is one of those."""
    x = np.random.default_rng(0).uniform(0, 1, (20, 1, 5, 4)).astype(np.float64)
    network = ClosedForm(np.random.default_rng(1).standard_normal((20, 3)), np.zeros(3))
    y = network.logits(x).argmax(axis=1)
    attack = Spatial(norm="l2", degrees=abs(turn), share=share, turns=2, shifts=2)
    result = attack(model(network), x, y, epsilons=None)
    assert result.success.any()
    middle, grid = np.array([2.0, 1.5]), []
    for angle in np.deg2rad((-abs(turn), abs(turn))):
        matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        for down in (-5 * share, 5 * share):
            for across in (-4 * share, 4 * share):
                offset = middle - matrix @ (middle + np.array([down, across]))
                moved = [affine_transform(np.pad(p[0], 9), matrix, offset + 9 - matrix @ (9, 9), order=1) for p in x]
                grid.append(np.stack(moved)[:, None, 9:-9, 9:-9])
    for row in np.flatnonzero(result.success[0]):
        gaps = [np.abs(pictures[row] - result.adversarials[0][row]).max() for pictures in grid]
        assert min(gaps) < 1e-9


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nes", {"pairs": 0}, "NES expects pairs of 1 or more, got pairs=0"),
        ("spsa", {"reach": 0.0}, "reach above 0"),
        ("pso", {"particles": 1}, "particles of 2 or more"),
        ("genetic", {"mutation_rate": 1.5}, "mutation_rate from 0 to 1"),
        ("boundary", {"towards": -1.0}, "towards above 0"),
        ("hop-skip-jump", {"steps": 0}, "steps of 1 or more"),
        ("spatial", {"degrees": 200.0}, "degrees from 0 to 180"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(name, options, message):
    with pytest.raises(InvalidInput, match=message):
        ATTACKS[name].make(norm=ATTACKS[name].norms[0], **options)


def test_where_all_data_are_of_one_class_walks_begin_with_noise():
    network = perceptron()
    x, y = data(network, 60)
    result = light("boundary", "l2")(model(network), x[y == 2], y[y == 2], epsilons=None)
    assert result.success.all()
    flat = ClosedForm(np.zeros((12, 2)), np.array([2.0, 1.5]))  # nothing is adversarial anywhere
    result = light("boundary", "l2")(model(flat), x, np.zeros(60, np.int64), epsilons=None)
    assert not result.success.any()
    np.testing.assert_array_equal(result.adversarials[0], x)
