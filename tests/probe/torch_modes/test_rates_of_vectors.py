"""A rate that is far too high is named where no parameter is a matrix, and a usual one is not."""

import pytest
from mindscope.insight.diagnosis import diagnose

pytest.importorskip("torch", reason="PyTorch is not installed")

#: What is trained, and what it predicts.
MODELS = {
    "vectors": ("w, b = torch.randn(8).mul_(0.3).requires_grad_(), torch.zeros(1, requires_grad=True)", "x @ w + b"),
    "scalars": (
        "w, b = torch.tensor(0.5, requires_grad=True), torch.tensor(0.0, requires_grad=True)",
        "w * x[:, 0] + b",
    ),
}
#: What makes the optimizer, and what follows the backward pass.
WAYS = {
    "an optimizer": ("optimizer = torch.optim.SGD([w, b], {rate})", "optimizer.step(); optimizer.zero_grad()"),
    "Adam": ("optimizer = torch.optim.Adam([w, b], {rate})", "optimizer.step(); optimizer.zero_grad()"),
    "by hand": ("", "w.data -= {rate} * w.grad; b.data -= {rate} * b.grad; w.grad = b.grad = None"),
}
TEXT = """
{model}
{make}
trained, truth = [], torch.randn(8)
for _ in range(steps):
    x = torch.randn(32, 8)
    loss = ({output} - x @ truth - 1).pow(2).mean()
    loss.backward()
    {step}
    losses.append(loss.item().hex())
"""


def _causes(run_alike, model: str, way: str, rate: float) -> list[str]:
    make, step = (words.format(rate=rate) for words in WAYS[way])
    written, output = MODELS[model]
    text = TEXT.format(model=written, make=make, output=output, step=step)
    store, found, _ = run_alike(text, steps=60)
    return [one.cause for one in diagnose(store, found.id).findings if one.severity != "info"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_a_rate_a_thousand_times_too_high_is_the_first_cause(run_alike, model, way):
    assert _causes(run_alike, model, way, 50.0)[:1] == ["learning_rate_too_high"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_a_usual_rate_is_not_named(run_alike, model, way):
    assert not _causes(run_alike, model, way, 0.05)
