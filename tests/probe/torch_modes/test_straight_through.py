"""Straight-through steps: the value that was chosen, with the gradient of what it was chosen by."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.copy_flow import flow_or_none  # noqa: E402
from mindscope.probe.checks.model_call import ModelCall  # noqa: E402
from mindscope.probe.checks.model_probe import ModelProbe  # noqa: E402
from mindscope.probe.checks.straight_through import straight_through_steps_pass_gradients  # noqa: E402
from torch import nn  # noqa: E402


class Rounding(nn.Module):
    """A bottleneck of a few levels, or of the nearest of some words; `step` joins the choice and what it is made of."""

    def __init__(self, step, *, has_words):
        super().__init__()
        self.step, self.has_words = step, has_words
        self.down, self.up, self.words = nn.Linear(6, 4), nn.Linear(4, 6), nn.Embedding(9, 4)

    def forward(self, x):
        code = self.down(x)
        chosen = torch.round(code * 3) / 3
        if self.has_words:
            chosen = self.words(torch.cdist(code, self.words.weight).argmin(-1))
        return self.up(self.step(code, chosen))


STEPS = {
    "usual": (lambda code, chosen: code + (chosen - code).detach(), "held"),
    "turned about": (lambda code, chosen: (chosen - code).detach() + code, "held"),
    "hard minus soft plus soft": (lambda code, chosen: chosen.detach() - code.detach() + code, "held"),
    "by data": (lambda code, chosen: code + (chosen - code).data, "held"),
    "without detach": (lambda code, chosen: code + (chosen - code), "broken"),
    "without detach, in two lines": (lambda code, chosen: (chosen - code) + code, "broken"),
    "exchanged": (lambda code, chosen: chosen + (code - chosen).detach(), "broken"),
    "no step": (lambda code, chosen: chosen, None),
    "a mean of both": (lambda code, chosen: code + 0.5 * (chosen - code), None),
}


def outcome_of(model, x):
    flow = flow_or_none(ModelProbe(model, ModelCall((x,), {}, ("x",))))
    assert flow is not None
    result = straight_through_steps_pass_gradients(flow)
    return None if result is None else result.outcome


@pytest.mark.parametrize("name", STEPS)
def test_a_step_passes_the_gradient_to_what_was_chosen_by(name):
    torch.manual_seed(0)
    step, expected = STEPS[name]
    assert outcome_of(Rounding(step, has_words=True), torch.randn(8, 6)) == expected


@pytest.mark.parametrize("name", ["usual", "without detach"])
def test_a_rounded_value_that_itself_passes_a_gradient_of_zero_is_left_alone(name):
    torch.manual_seed(0)
    step, _ = STEPS[name]
    expected = "held"  # torch.round has a gradient: zeros, which the graph does not tell from any other
    assert outcome_of(Rounding(step, has_words=False), torch.randn(8, 6)) == expected


def test_one_step_of_a_differential_equation_is_healthy():
    class Flowing(nn.Linear):
        def forward(self, x):
            return x + (torch.tanh(super().forward(x)) - x)

    torch.manual_seed(0)
    assert outcome_of(nn.Sequential(nn.Linear(6, 6), Flowing(6, 6)), torch.randn(8, 6)) == "held"


def test_a_gradient_that_is_scaled_is_healthy():
    class Scaled(nn.Linear):
        def forward(self, x):
            value = super().forward(x)
            less = 0.1 * value
            return less + (value - less).detach()

    torch.manual_seed(0)
    assert outcome_of(Scaled(6, 6), torch.randn(8, 6)) == "held"
