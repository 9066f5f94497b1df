"""Half of all layers away from their history for hundreds of records is a notice, and drift or one layer is none."""

import numpy as np
import pytest
from mindscope.insight import RULES, Recording
from mindscope.insight.engine import Engine
from mindscope.insight.recording import chain
from mindscope.storage import Event

SITES = ("one", "two", "three", "four", "five", "six")
MODEL = chain(*(f"{site}:Dense" for site in SITES))


def notices(level, *, layers=6, records=500):
    """The findings of the rule `unknown` about gradients that scatter by a tenth around a level."""
    rng = np.random.default_rng(0)
    series = {
        f"{site}.weight gradient/l2_norm": tuple(
            float((level(step) if at < layers else 1.0) * np.exp(0.1 * rng.standard_normal()))
            for step in range(records)
        )
        for at, site in enumerate(SITES)
    }
    engine = Engine({"unknown": RULES["unknown"]})
    engine.learn_structure(MODEL)
    for record in Recording({"scalar/loss": (1.0,) * records, **series}, MODEL).records():
        engine.observe(record)
    return engine.findings


def test_a_jump_of_all_layers_that_lasts_is_said_with_its_step():
    (finding,) = notices(lambda step: 300.0 if step >= 200 else 1.0)
    assert (finding.severity, finding.cause) == ("info", "unknown")
    assert 200 <= finding.first_step <= 208
    assert "unusual, cause unknown" in finding.explanation
    assert finding.evidence["layers"] == 6


@pytest.mark.parametrize(
    ("level", "layers"),
    [
        (lambda step: 1.0, 6),
        (lambda step: 0.98**step, 6),
        (lambda step: 300.0 if 200 <= step < 300 else 1.0, 6),
        (lambda step: 300.0 if step >= 200 else 1.0, 2),
    ],
    ids=["noise", "drift", "passed", "two-layers"],
)
def test_noise_drift_and_what_passes_are_not(level, layers):
    assert notices(level, layers=layers) == ()


def test_a_loss_that_is_lost_says_which_layers_are_far_from_their_history():
    loss = (*(2.0 * 0.99**step for step in range(120)), *(2.6,) * 22)
    rng = np.random.default_rng(0)
    series = {
        f"{site}.weight gradient/l2_norm": tuple(
            float((300.0 if site == "two" and step >= 110 else 1.0) * np.exp(0.1 * rng.standard_normal()))
            for step in range(len(loss))
        )
        for site in SITES
    }
    engine = Engine({"unknown": RULES["unknown"]})
    engine.learn_structure(MODEL)
    called = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
    for record in Recording({"scalar/loss": loss, **series}, MODEL, (called,)).records():
        engine.observe(record)
    (finding,) = engine.findings
    assert "the gradient of two.weight is far from its own history now" in finding.explanation
