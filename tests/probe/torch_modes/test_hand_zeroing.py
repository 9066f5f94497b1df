"""Gradients that a hand-written update never clears are a finding; those that add up on purpose are none."""

import pytest
from mindscope.insight.diagnosis import diagnose

pytest.importorskip("torch", reason="PyTorch is not installed")

#: What is trained, its output, and its parameters.
MODELS = {
    "raw tensors": ("w = torch.randn(8, 1).mul_(0.3).requires_grad_()", "x @ w", "[w]"),
    "a vector": ("w = torch.randn(8).mul_(0.3).requires_grad_()", "(x @ w)[:, None]", "[w]"),
    "a module": ("model = net(8, 6, 1)", "model(x)", "[*model.parameters()]"),
}
#: What follows the update, and whether it leaves gradients that nobody meant to keep.
ENDS = {
    "nothing": ("pass", True),
    "cleared": ("p.grad = None", False),
    "kept as momentum": ("p.grad.mul_(0.5)", False),
}
TEXT = """
{model}
trained, truth = [], torch.randn(8, 1)
for at in range(steps):
    x = torch.randn(32, 8)
    loss = ({output} - x @ truth).pow(2).mean() / {passes}
    loss.backward()
    losses.append(loss.item())
    if at % {passes} == {passes} - 1:
        with torch.no_grad():
            for p in {parameters}:
                p -= 0.01 * p.grad
                {end}
"""


def _finds_it(run_alike, model: str, end: str, passes: int) -> bool:
    written, output, parameters = MODELS[model]
    text = TEXT.format(model=written, output=output, parameters=parameters, end=end, passes=passes)
    store, found, _ = run_alike(text, steps=24)
    return "missing_zero_grad" in {one.cause for one in diagnose(store, found.id).findings}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("model", MODELS)
def test_gradients_of_the_step_before_are_told_where_all_of_them_are_left(run_alike, model, end):
    words, is_wrong = ENDS[end]
    assert _finds_it(run_alike, model, words, 1) is is_wrong


@pytest.mark.parametrize("model", MODELS)
def test_gradients_that_are_summed_over_passes_and_then_cleared_are_meant(run_alike, model):
    assert not _finds_it(run_alike, model, "p.grad = None", 4)
