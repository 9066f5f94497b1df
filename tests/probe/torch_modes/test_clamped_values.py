"""Clamps inside a model beyond whose limits everything lies."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
class Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.width = net(3, 8, 1), net(3, 8, 1)
    def forward(self, x):
        return self.mean(x), self.width(x).clamp({limits}).exp()
model = Spread()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(64, 3)
    mean, width = model(x)
    loss = functional.gaussian_nll_loss(mean, x[:, :1], width)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(("limits", "outcome"), [("min=3.0", "broken"), ("-7, 7", "held")])
def test_a_limit_beyond_all_values(run_alike, limits, outcome):
    store, found, _ = run_alike(TRAINING.format(limits=limits))
    told = [one for one in store.events(found.id, kind="check") if one.data["check"] == "clamps_leave_values_free"]
    assert told[-1].data["outcome"] == outcome
    named = {one.cause for one in store.findings(found.id)}
    assert ("saturated_activation" in named) == (outcome == "broken")
