"""Models that hide their gradients are attacked as well as if they did not, or the evaluation says not to trust it."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from mindscope.armour import evaluate, wrap
from mindscope.armour.evaluation.masking import model_signs
from mindscope.armour.metrics import clever, smallest_changes
from mindscope.armour.metrics.metric_outcomes import clever_outcome, empirical_robustness_outcome

from benchmarks.armour.adaptive import best_accuracy
from benchmarks.armour.cases import CASES
from benchmarks.armour.trial import trial_of
from benchmarks.attacks.digits import images
from tests.armour.networks import ClosedForm, data, model, perceptron

BY_NAME = {case.name: case for case in CASES}
X, Y = (part[:60] for part in images())


def trial(name, best=0.0):
    return trial_of(BY_NAME[name], "quick", X, Y, best)


def test_there_are_models_of_every_kind():
    assert len(CASES) == len(BY_NAME) >= 40
    assert {case.kind for case in CASES} == {"honest", "rescaled", "masked", "stochastic", "stateful"}


@pytest.mark.parametrize("name", ["plain", "robust", "mlp", "mlp of the engine", "left in training mode, dropout"])
@pytest.mark.filterwarnings("ignore:.*training mode")
def test_an_honest_model_is_not_accused(name):
    assert trial(name).signs == ()


@pytest.mark.parametrize(
    ("name", "signs"),
    [
        ("logits x 0.1, mlp", set()),
        ("logits x 0.1, robust", set()),
        ("logits x 1e-4, mlp", {"logit-scale"}),
        ("sigmoid outputs, mlp", set()),
    ],
)
def test_outputs_on_another_scale_get_the_same_number(name, signs):
    assert trial(name).accuracy == pytest.approx(trial(BY_NAME[name].base).accuracy, abs=0.02)
    assert set(trial(name).signs) == signs


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("rounded, mlp", "zero-gradient"),
        ("tanh outputs, mlp", "zero-gradient"),
        ("gradient of other pixels, mlp", "gradient-mismatch"),
        ("gradient of every fourth row, mlp", "gradient-mismatch"),
        ("saturated tanh", "gradient-mismatch"),
        ("batch statistics, batch statistics", "batch-dependence"),
        ("remembering, mlp", "zero-gradient"),
    ],
)
def test_a_mask_is_named(name, sign):
    assert sign in trial(name).signs


def test_the_best_attack_known_sees_through_a_mask():
    case = BY_NAME["opposite gradient, mlp"]
    best = best_accuracy(case.make, case.open(), X, Y, case.epsilon, is_random=False)
    assert best == pytest.approx(trial("mlp").accuracy, abs=0.02)
    assert trial(case.name, best).passes(0.02)


class Counting(ClosedForm):
    """Turns its logits round after forty calls."""

    def pullback(self, x, cotangent):
        logits, gradient = super().pullback(x, cotangent)
        return (logits if self.calls < 40 else logits[:, ::-1].copy()), gradient


def test_a_model_that_changes_from_call_to_call_is_told():
    clean = perceptron()
    x, y = data(clean, 30)
    network = Counting(clean.weight, clean.bias, clean.hidden)
    assert "state" in {sign.name for sign in evaluate(model(network), x, y, [0.1], attacks=["pgd"]).masking}


@pytest.mark.parametrize("factor", [1e-4, 1e3])
def test_every_sign_says_what_to_run_next(factor):
    clean = perceptron()
    x, y = data(clean, 30)
    network = ClosedForm(clean.weight * np.float32(factor), clean.bias * np.float32(factor), clean.hidden)
    (sign,) = evaluate(model(network), x, y, [0.1]).masking
    assert sign.name == "logit-scale"
    assert "run suite standard" in sign.explanation


def test_a_network_of_torch_and_one_of_the_engine_get_the_same_number():
    accuracies = {trial(name).accuracy for name in ("mlp", "mlp of the engine")}
    assert len(accuracies) == 1
    assert wrap(BY_NAME["mlp"].make()).framework == "torch"


def test_an_estimate_from_gradients_obeys_the_signs_and_says_where_it_stopped():
    masked = wrap(BY_NAME["rounded, mlp"].make())
    scores = clever(masked, X[:2], radius=0.5, batches=3, points=5)
    signs = model_signs(masked, X[:20], Y[:20], "l2")
    outcome = clever_outcome(scores, "l2", 0.5, batches=3, points=5, seed=0, signs=signs)
    assert outcome.details["at_radius"] == 2
    assert "zero-gradient" in outcome.details["masking"]
    changes = smallest_changes(masked, X[:20], Y[:20])
    empirical = empirical_robustness_outcome(changes, "l2", attack="deepfool", seed=0, signs=signs)
    assert "zero-gradient" in empirical.details["masking"]
    assert empirical.details["without_example"] == np.isinf(changes).sum() > 0
    assert model_signs(wrap(BY_NAME["mlp"].make()), X[:20], Y[:20], "l2") == ()


def test_chance_is_measured_once():
    clean = perceptron()
    x, y = data(clean, 30)
    asked = []

    class Asked(ClosedForm):
        def logits(self, x):
            asked.append(len(x))
            return super().logits(x)

    def calls(**options):
        asked.clear()
        evaluate(model(Asked(clean.weight, clean.bias, clean.hidden)), x, y, [0.1], attacks=["fgsm"], **options)
        return asked.count(30)

    # Without draws=1 the first answers are asked for as well: once, and three times again.
    assert calls() == calls(draws=1) + 1
