"""Normalising flows: whether the likelihood that is maximised is that of their map."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

FLOW = """
class Coupling(nn.Module):
    def __init__(self, keeps):
        super().__init__()
        self.inner = net(1, 8, 2)
        self.keeps = keeps
    def forward(self, x):
        kept, other = x[:, self.keeps], x[:, 1 - self.keeps]
        scale, shift = self.inner(kept[:, None]).tanh().unbind(1)
        other = other * scale.exp() + shift
        return torch.stack([kept, other] if self.keeps == 0 else [other, kept], 1), scale
class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Coupling(keeps) for keeps in {keeps}])
        self.register_buffer("nothing", torch.zeros(1))
    def forward(self, x):
        total = torch.zeros(len(x))
        for layer in self.layers:
            x, determinant = layer(x)
            total = {total}
        return x, total + self.nothing
flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(16, 2) * 0.5 + 1.0
    z, determinant = flow(x)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [flow]
"""
LIKELIHOOD = "(0.5 * z.square().sum(1) - determinant).mean()"
RIGHT = {"keeps": "[0, 1, 0]", "total": "total + determinant", "loss": LIKELIHOOD}


@pytest.mark.parametrize(
    ("change", "determinant", "transformed"),
    [
        ({}, "held", "held"),
        ({"total": "determinant"}, "broken", "held"),
        ({"total": "total - determinant"}, "broken", "held"),
        ({"keeps": "[0, 0]"}, "held", "broken"),
        # no likelihood of a flow
        ({"loss": "(z - x).square().mean() + determinant.square().mean()"}, None, None),
    ],
)
def test_a_flow_is_held_to_its_likelihood(run_alike, change, determinant, transformed):
    store, found, _ = run_alike(FLOW.format(**{**RIGHT, **change}))
    events = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert events.get("log_determinant_is_that_of_the_map") == determinant
    assert events.get("every_dimension_is_transformed") == transformed
    named = {one.cause for one in store.findings(found.id) if one.severity != "info"}
    assert ("flow_error" in named) == ("broken" in (determinant, transformed))
