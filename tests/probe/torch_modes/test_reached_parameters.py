"""Parameters that a loss reaches and no optimizer holds, whichever module they are in."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)
        self.hidden = {kind}([nn.Linear(4, 4)])
    def forward(self, x):
        return self.last(self.hidden[0](self.first(x)).relu())
model, judge = Listed(), nn.Linear(1, 1)
judge.train({is_trained})
scale = torch.ones(1, requires_grad=True)
optimizer = torch.optim.Adam([*model.parameters(), *{others}], 1e-2)
for step in range(30):
    x = torch.randn(8, 3)
    loss = functional.mse_loss(judge(model(x)) * {factor}, x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {by_hand}
    losses.append(loss.item())
trained = [model]
"""
RIGHT = {
    "kind": "nn.ModuleList",
    "is_trained": False,
    "others": "[]",
    "factor": "1.0",
    "by_hand": "",
}


@pytest.mark.parametrize(
    ("change", "owner"),
    [
        ({}, None),
        ({"kind": "list"}, "model.hidden.0"),
        ({"is_trained": True}, "judge"),
        ({"is_trained": True, "others": "judge.parameters()"}, None),
        ({"factor": "scale"}, "scale"),
        ({"factor": "scale", "by_hand": "scale.data.sub_(0.01 * scale.grad)"}, None),
    ],
)
def test_what_no_optimizer_holds_and_nothing_moves_is_told(run_alike, change, owner):
    store, found, _ = run_alike(TRAINING.format(**{**RIGHT, **change}))
    events = [
        one for one in store.events(found.id, kind="check") if one.data["check"] == "reached_parameters_are_stepped"
    ]
    assert [one.data["subject"] for one in events if one.data["outcome"] == "broken"] == ([owner] if owner else [])
    named = {one.site for one in store.findings(found.id) if one.cause == "parameter_not_in_optimizer"}
    assert named == ({owner} if owner else set())


def test_a_coordinate_that_a_derivative_is_asked_for_is_no_parameter(run_alike):
    """The point of an initial condition needs a gradient, and no optimizer."""
    store, found, _ = run_alike("""
model = net(1, 8, 1)
start = torch.zeros(1, 1, requires_grad=True)
optimizer = torch.optim.Adam(model.parameters())
for step in range(40):
    value = model(start * 0.5)
    slope, = torch.autograd.grad(value, start, torch.ones_like(value), create_graph=True)
    loss = (value**2 + (slope - 1) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
""")
    assert not [one for one in store.findings(found.id) if one.cause == "parameter_not_in_optimizer"]
