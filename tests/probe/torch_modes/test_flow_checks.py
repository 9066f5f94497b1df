"""Normalising flows: whether the likelihood that is maximised is that of their map."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

FLOW = """
class Coupling(nn.Module):
    def __init__(self, keeps):
        super().__init__()
        self.inner = net(1, 8, 2)
        self.keeps = keeps
    def parts(self, x):
        kept, other = x[:, self.keeps], x[:, 1 - self.keeps]
        return kept, other, *self.inner(kept[:, None]).tanh().unbind(1)
    def joined(self, kept, other):
        return torch.stack([kept, other] if self.keeps == 0 else [other, kept], 1)
    def forward(self, x):
        kept, other, scale, shift = self.parts(x)
        return self.joined(kept, other * scale.exp() + shift), scale
    def inverse(self, y):
        kept, other, scale, shift = self.parts(y)
        return self.joined(kept, {inverse})
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(2))
    def forward(self, x):
        return x * self.log_scale.exp(), self.log_scale.sum()
class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([*[Coupling(keeps) for keeps in {keeps}], *{more}])
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
INVERSE = "(other - shift) * (-scale).exp()"
RIGHT = {"inverse": INVERSE, "more": "[]", "keeps": "[0, 1, 0]", "total": "total + determinant", "loss": LIKELIHOOD}


@pytest.mark.parametrize(
    ("change", "determinant", "transformed"),
    [
        ({}, "held", "held"),
        ({"total": "determinant"}, "broken", "held"),
        ({"total": "total - determinant"}, "broken", "held"),
        ({"keeps": "[0, 0]"}, "held", "broken"),
        # both layers keep dimension 0, and a norm scales it
        ({"keeps": "[0, 0]", "more": "[Norm()]"}, "held", "broken"),
        # the other direction: its log-determinant is subtracted
        ({"total": "total - determinant", "loss": LIKELIHOOD.replace("- det", "+ det")}, "held", "held"),
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


@pytest.mark.parametrize(
    ("keeps", "outcome"), [("[0, 0, 0]", "broken"), ("[0, 1, 0]", "held"), ("[0]", None)], ids=["same", "turns", "one"]
)
def test_layers_that_a_program_calls_itself_transform_every_dimension(run_alike, keeps, outcome):
    text = FLOW.format(**{**RIGHT, "keeps": keeps})
    called = text.replace("def forward(self, x):\n        total", "def log_prob(self, x):\n        total")
    store, found, _ = run_alike(called.replace("flow(x)", "flow.log_prob(x)"))
    events = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert events.get("every_dimension_is_transformed") == outcome
    named = {one.cause for one in store.findings(found.id) if one.severity != "info"}
    assert ("flow_error" in named) == (outcome == "broken")


@pytest.mark.parametrize(
    ("change", "weighed", "inverted"),
    [
        ({}, "held", "held"),
        ({"loss": "(0.5 * z.square().mean(1) - determinant).mean()"}, "broken", "held"),
        ({"loss": "(0.5 * z.square().sum(1) - determinant / 2).mean()"}, "broken", "held"),
        ({"inverse": "other * (-scale).exp() - shift"}, "held", "broken"),
        ({"inverse": "(other + shift) * (-scale).exp()"}, "held", "broken"),
    ],
)
def test_a_flow_weighs_its_terms_alike_and_undoes_its_map(run_alike, change, weighed, inverted):
    store, found, _ = run_alike(FLOW.format(**{**RIGHT, **change}))
    events = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert events["likelihood_adds_its_terms_alike"] == weighed
    assert events["inverse_undoes_the_map"] == inverted
    named = {one.cause for one in store.findings(found.id) if one.severity != "info"}
    assert ("flow_error" in named) == ("broken" in (weighed, inverted))
