"""The verdict on trained networks for digits: masked ones are told why, and clean ones get none."""

import numpy as np
import pytest
from mindscope.armour import PGD, evaluate, wrap

from benchmarks.attacks import digits

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")


class Loud(torch.nn.Module):
    """Logits times 100, as in a network that hides its gradients from the cross-entropy."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 100 * self.inner(x)


class Quantised(Loud):
    """Inputs rounded to eight levels."""

    def forward(self, x):
        return self.inner(torch.round(8 * x) / 8)


def samples(count=100):
    x, y = digits.images()
    return x[:count], y[:count]


def verdict(model, **options):
    return {symptom.name: symptom for symptom in evaluate(wrap(model), *samples(), [0.05, 0.1], **options).masking}


@pytest.mark.parametrize("name", digits.NAMES)
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_clean_networks_get_no_verdict(name, norm):
    assert verdict(digits.torch_model(name), norm=norm) == {}


def test_the_engine_s_network_gets_none_either():
    assert verdict(digits.engine_model("robust")) == {}


@pytest.mark.parametrize(
    ("mask", "cause"),
    [(Loud, "logit-scale"), (Quantised, "zero-gradient")],
    ids=["logits times 100", "quantised input"],
)
def test_masked_networks_are_told_why(mask, cause):
    found = verdict(mask(digits.torch_model("plain")).eval())
    assert cause in found
    assert found[cause].explanation


def test_a_network_left_in_training_mode_is_switched_and_told_and_not_accused():
    network = digits.torch_model("plain").train()
    with pytest.warns(UserWarning, match="in training mode"):
        found = evaluate(wrap(network), *samples(), [0.05])
    assert found.masking == ()
    assert any("modules were in training mode; they were switched" in sentence for sentence in found.warnings)
    assert network.training


def test_logits_times_100_do_not_make_a_network_look_robust():
    x, y = samples()
    plain, loud = (
        PGD(steps=40, step_size=2.5 / 40, random_start=True, sharpened=False)(
            wrap(model), x, y, epsilons=[0.05]
        ).robust_accuracy[0]
        for model in (digits.torch_model("plain"), Loud(digits.torch_model("plain")).eval())
    )
    assert loud == pytest.approx(plain, abs=0.01)
    assert plain < np.mean(digits.torch_model("plain")(torch.from_numpy(x)).argmax(dim=1).numpy() == y) - 0.05
