"""Codes that are looked up because they are near, and those that are the farthest of all."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.probe.checks.copy_flow import flow_or_none  # noqa: E402
from mindscope.probe.checks.model_call import ModelCall  # noqa: E402
from mindscope.probe.checks.model_probe import ModelProbe  # noqa: E402
from mindscope.probe.checks.nearest_codes import chosen_codes_are_near  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Memory(nn.Module):
    """Reads the slot of a memory that an input is nearest to."""

    def __init__(self, choose):
        super().__init__()
        self.choose, self.ask = choose, nn.Linear(5, 6)
        self.slots = nn.Parameter(torch.randn(24, 6))

    def forward(self, x):
        query = self.ask(x)
        return query + self.slots[self.choose(query, self.slots)]


CHOICES = {
    "distance": (lambda query, slots: torch.cdist(query, slots).argmin(1), "held"),
    "differences": (lambda query, slots: (query[:, None] - slots).pow(2).sum(-1).argmin(1), "held"),
    "square": (lambda query, slots: (slots.pow(2).sum(1) - 2 * query @ slots.t()).min(1).indices, "held"),
    "scalar product": (lambda query, slots: (query @ slots.T).argmax(1), "held"),
    "cosine": (
        lambda query, slots: functional.linear(query, functional.normalize(slots, dim=1)).topk(1).indices[:, 0],
        "held",
    ),
    "noisy": (lambda query, slots: (query @ slots.T + 3 * torch.randn(32, 24)).argmax(1), "held"),
    "farthest": (lambda query, slots: torch.cdist(query, slots).argmax(1), "broken"),
    "least alike": (lambda query, slots: (query @ slots.T).argmin(1), "broken"),
    "wrong sign": (lambda query, slots: (slots.pow(2).sum(1) + 2 * query @ slots.t()).argmin(1), "broken"),
    "no choice": (lambda query, slots: torch.arange(len(query)) % 24, None),
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_chosen_is_near(name):
    torch.manual_seed(0)
    choose, expected = CHOICES[name]
    flow = flow_or_none(ModelProbe(Memory(choose), ModelCall((3 * torch.randn(32, 5),), {}, ("x",))))
    assert flow is not None
    result = chosen_codes_are_near(flow)
    assert (None if result is None else result.outcome) == expected
