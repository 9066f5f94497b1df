from dataclasses import dataclass

import numpy as np
import pytest
from mindscope.armour import FGSM, PGD, Attack, InvalidInput, InvalidSearch
from mindscope.armour.problem.objective import cross_entropy

from tests.armour.networks import data, linear, model, perceptron


@dataclass(frozen=True)
class Returning(Attack):
    """Whatever a test wants a search to return."""

    answer: object = None

    def search(self, problem):
        return self.answer(problem.x)


def test_a_search_that_leaves_the_budget_is_brought_back_and_kept_raw():
    network = linear()
    x, y = data(network)
    result = Returning(answer=lambda x: x + 5)(model(network), x, y, epsilons=[0.1])
    assert (result.raw == x + 5).all()
    assert result.distances.max() <= 0.1
    assert result.adversarials.max() <= 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: x[:1], r"Returning must return candidates \(60, 12\) of float32, got \(1, 12\)"),
        (lambda x: x.astype(np.float64), "of float32, got .* of float64"),
        (lambda x: x * np.nan, "finite candidates"),
        (lambda _: None, "got NoneType"),
    ],
    ids=["shape", "dtype", "nan", "nothing"],
)
def test_a_search_that_breaks_its_contract_is_named(answer, message):
    network = linear()
    x, y = data(network)
    with pytest.raises(InvalidSearch, match=message):
        Returning(answer=answer)(model(network), x, y, epsilons=[0.1])


def test_progress_counts_the_batches_of_all_budgets():
    network = linear()
    x, y = data(network)
    seen = []
    FGSM()(model(network), x, y, epsilons=[0.1, 0.2], batch_size=25, progress=lambda *told: seen.append(told))
    assert seen == [(number, 6) for number in range(1, 7)]


def test_shape_is_budgets_by_samples_by_input():
    network = perceptron()
    x, y = data(network, 10, (2, 3, 2))
    result = PGD(steps=2)(model(network), x, y, epsilons=(0.1, 0.2, 0.3))
    assert result.adversarials.shape == result.raw.shape == (3, 10, 2, 3, 2)
    assert result.distances.shape == result.success.shape == result.queries.shape == (3, 10)
    assert result.epsilons == (0.1, 0.2, 0.3)


def test_a_single_budget_may_be_given_as_a_number():
    network = linear()
    x, y = data(network)
    assert FGSM()(model(network), x, y, epsilons=0.1).epsilons == (0.1,)


def test_an_option_that_makes_no_sense_is_refused():
    for options, message in (
        ({"steps": 0}, "1 step and 1 start or more, got steps=0"),
        ({"restarts": 0}, "restarts=0"),
        ({"step_size": 0.0}, "step_size above 0"),
    ):
        with pytest.raises(InvalidInput, match=message):
            PGD(**options)


@dataclass(frozen=True)
class Unopened(FGSM):
    """The same search, which asks for its first gradient by itself."""

    def initial_objective(self):
        return None


@pytest.mark.parametrize("batch_size", [7, 60])
def test_the_first_gradient_comes_with_the_clean_logits_and_is_asked_for_once(batch_size):
    network = perceptron()
    x, y = data(network, 60)
    y[:5] = (y[:5] + 1) % 4  # not attacked
    budgets, batches = [0.05, 0.1, 0.2], -(-60 // batch_size)
    network.calls = 0
    opened = FGSM()(model(network), x, y, epsilons=budgets, batch_size=batch_size)
    glance, passes = 1, network.calls
    assert passes == glance + batches + len(budgets) * -(-55 // batch_size)
    plain = Unopened()(model(network), x, y, epsilons=budgets, batch_size=batch_size)
    assert network.calls - passes == passes + len(budgets) * -(-55 // batch_size)
    np.testing.assert_array_equal(opened.adversarials, plain.adversarials)
    np.testing.assert_array_equal(opened.gradient_calls, plain.gradient_calls)


@dataclass(frozen=True)
class Former(Returning):
    """An attack that was written for the release before."""

    def opening(self):
        return cross_entropy


def test_the_old_name_of_the_initial_objective_is_called_with_a_warning():
    network = linear()
    x, y = data(network)
    with pytest.warns(DeprecationWarning, match=r"Former\.opening is now initial_objective"):
        result = Former(answer=lambda x: x)(model(network), x, y, epsilons=[0.1])
    assert result.adversarials.shape == (1, *x.shape)
