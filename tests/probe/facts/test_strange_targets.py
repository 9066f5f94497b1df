"""Targets that a loss cannot mean are told at once, and smoothed, masked or whole ones never."""

import pytest
from mindscope.insight import diagnose
from mindscope.probe import watch
from mindscope.storage import open_store

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn, functional = torch.nn, torch.nn.functional

POSITIVE = (torch.arange(48.0).reshape(8, 6) % 5).clamp(max=3)
SHARES = functional.softmax(POSITIVE, -1)
_MEAN = {"reduction": "batchmean"}
CASES = {
    "a mask of 255": ("binary_cross_entropy_with_logits", (POSITIVE > 1) * 255.0, {}, (0.0, 255.0)),
    "signs": ("binary_cross_entropy_with_logits", (POSITIVE > 1) * 2.0 - 1.0, {}, (-1.0, 1.0)),
    "counts as shares": ("cross_entropy", POSITIVE, {}, (0.0, 3.0)),
    "standardised counts": ("poisson_nll_loss", POSITIVE - 2.0, {}, (-2.0, 1.0)),
    "logarithms": ("kl_div", SHARES.log(), _MEAN, (float(SHARES.log().min()), float(SHARES.log().max()))),
    "no logarithms": ("kl_div", SHARES, {"log_target": True, **_MEAN}, (float(SHARES.min()), float(SHARES.max()))),
}
MEANT = {
    "labels": ("binary_cross_entropy_with_logits", (POSITIVE > 1) * 1.0, {}),
    "labels for a judge": ("binary_cross_entropy_with_logits", torch.full((8, 6), 1.2), {}),
    "left out later": ("binary_cross_entropy_with_logits", torch.full((8, 6), -100.0), {"reduction": "none"}),
    "smoothed classes": ("cross_entropy", SHARES, {}),
    "classes": ("cross_entropy", POSITIVE[:, 0].long(), {}),
    "counts": ("poisson_nll_loss", POSITIVE, {}),
    "shares": ("kl_div", SHARES, _MEAN),
    "logarithms, and said so": ("kl_div", SHARES.log(), {"log_target": True, **_MEAN}),
    "numbers": ("mse_loss", POSITIVE * 100, {}),
}


def _watched(loss, target, options):
    torch.manual_seed(0)
    model = nn.Linear(4, 6)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    store = open_store("memory:")
    with watch(model, optimizer, store=store) as monitor:
        for _ in range(4):
            outputs = model(torch.randn(8, 4))
            outputs = outputs.log_softmax(-1) if loss == "kl_div" else outputs
            optimizer.zero_grad()
            getattr(functional, loss)(outputs, target, **options).mean().backward()
            optimizer.step()
    events = store.events(monitor.run.id, kind="loss_input")
    named = [root for root in diagnose(store, monitor.run.id).findings if "target_max" in root.evidence]
    return events[0].data, named


@pytest.mark.parametrize("name", CASES)
def test_a_target_that_the_loss_cannot_mean_is_a_finding(name):
    loss, target, options, expected = CASES[name]
    data, named = _watched(loss, target, options)
    assert (data["target_min"], data["target_max"]) == pytest.approx(expected)
    assert [(found.cause, found.step, found.severity) for found in named] == [("loss_input_domain", 0, "error")]
    assert f"{loss} is given targets from {expected[0]:.4g} to {expected[1]:.4g}" in named[0].explanation


@pytest.mark.parametrize("name", MEANT)
def test_what_is_meant_is_not(name):
    data, named = _watched(*MEANT[name])
    assert "target_max" not in data
    assert named == []
