"""Models that answer at random: attacks climb their expectation, and fresh draws judge what is claimed."""

import random

import numpy as np
import pytest
from mindscope.armour import PGD, InvalidInput, evaluate, expected, wrap
from mindscope.armour.binomial_bounds import wilson_interval
from mindscope.armour.evaluation.expectation import ErrorRates, certain, seeded, worse

from tests.armour.networks import ClosedForm, data, model, perceptron

CLEAN = perceptron()
X, Y = data(CLEAN, 40)


class Noisy(ClosedForm):
    """Normal noise of NumPy's global generator on the input."""

    def pullback(self, x, cotangent):
        noise = np.random.normal(0, 0.1, x.shape)  # noqa: NPY002  the generator that models of others draw from
        return super().pullback(x + noise.astype(x.dtype), cotangent)


def noisy():
    return model(Noisy(CLEAN.weight, CLEAN.bias, CLEAN.hidden))


def test_a_random_model_is_judged_by_fresh_draws_with_an_interval():
    found = evaluate(noisy(), X, Y, [0.1], attacks=["pgd"])
    accuracy, (low, high) = found.accuracy()[0.1], found.intervals[0.1]
    assert "randomness" not in {symptom.name for symptom in found.masking}
    assert low < accuracy < high
    worst = next(outcome for outcome in found.outcomes if (outcome.attack, outcome.epsilon) == ("worst-case", 0.1))
    assert worst.details["draws"] == 20
    assert worst.details["interval"] == [low, high]
    assert f"{low:.3f} to {high:.3f} (95 %)" in found.table()
    examples = PGD()(model(CLEAN), X, Y, epsilons=[0.1]).adversarials[0]
    right = np.mean([noisy().logits(examples).argmax(axis=1) == Y for _ in range(50)])
    assert accuracy <= right + 0.02


def test_the_generators_are_seeded_and_left_as_they_were():
    numbers, python = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    first, again = (evaluate(noisy(), X[:10], Y[:10], [0.1], attacks=["fgsm"], seed=3) for _ in range(2))
    assert repr(first) == repr(again)
    assert (np.random.get_state()[1] == numbers).all()  # noqa: NPY002
    assert random.getstate() == python
    assert repr(first) != repr(evaluate(noisy(), X[:10], Y[:10], [0.1], attacks=["fgsm"], seed=4))


def test_a_seed_serves_every_generator():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    before = torch.random.get_rng_state()
    drawn = []
    for _ in range(2):
        with seeded(5):
            drawn.append((random.random(), np.random.uniform(), float(torch.rand(()))))  # noqa: NPY002
    assert drawn[0] == drawn[1]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_model_without_chance_is_asked_once_and_has_no_interval():
    found = evaluate(model(CLEAN), X[:10], Y[:10], [0.1], attacks=["fgsm"])
    assert found.intervals == {}
    assert "draws" not in found.outcomes[-1].details


def test_the_expectation_is_the_mean_of_logits_and_gradients():
    logits, gradient = expected(noisy(), 400).pullback(X, np.ones_like)
    exact = expected(model(CLEAN), 2).pullback(X, np.ones_like)[1]
    np.testing.assert_allclose(exact, model(CLEAN).pullback(X, np.ones_like)[1], rtol=1e-6)
    np.testing.assert_allclose(logits, CLEAN.logits(X), atol=0.2)
    assert np.corrcoef(gradient.ravel(), exact.ravel())[0, 1] > 0.9


@pytest.mark.parametrize("draws", [0, -1, 2.0, True])
def test_draws_are_a_whole_number(draws):
    with pytest.raises(InvalidInput, match="draws expects 1 or more"):
        evaluate(model(CLEAN), X, Y, [0.1], draws=draws)
    with pytest.raises(InvalidInput, match="draws expects 1 or more"):
        expected(model(CLEAN), draws)


def test_a_predictor_without_gradients_is_not_averaged():
    predictor = wrap(lambda x: CLEAN.logits(np.asarray(x, np.float32)))
    with pytest.raises(InvalidInput, match="draws above 1 expect a classifier with gradients"):
        evaluate(predictor, X, Y, [0.1], attacks=["plain-noise"], draws=2)


def test_wilson_s_interval_is_that_of_the_score_test():
    low, high = wilson_interval(10, 50)
    for end in (low, high):
        assert abs(0.2 - end) / np.sqrt(end * (1 - end) / 50) == pytest.approx(1.959964, abs=1e-5)
    assert wilson_interval(0, 20)[0] == 0
    assert wilson_interval(20, 20)[1] == 1


def test_draws_that_samples_share_are_worth_less():
    alone = np.random.default_rng(0).integers(0, 2, (64, 20)).astype(float)
    shared = np.repeat(alone[::16], 16, axis=0)
    narrow, wide = (ErrorRates(each.mean(axis=1), each).interval() for each in (alone, shared))
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_the_worst_example_is_chosen_by_some_draws_and_judged_by_others():
    first = ErrorRates(np.array([0.5, 0.9]), np.array([[0.0, 1.0], [1.0, 1.0]]))
    second = ErrorRates(np.array([0.6, 0.2]), np.array([[0.0, 0.0], [0.0, 0.0]]))
    assert worse(first, second).judged.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert certain(np.array([True, False])).judged.tolist() == [[1.0], [0.0]]
