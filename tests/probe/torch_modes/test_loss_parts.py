"""Models that return their loss: the parts that they hand their inputs to are looked at."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.scale = Tower(4), Tower(6), nn.Parameter(torch.tensor(2.0))
    def forward(self, x, y):
        alike = self.left(x) @ self.right(y).T * self.scale
        return functional.cross_entropy(alike, torch.arange(len(x)))
class Tower(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(size, 16), nn.Tanh(), nn.Linear(16, 8))
    def forward(self, x):
        return functional.normalize(self.layers(x), dim={dim})
model = Towers()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(40):
    x = torch.randn(16, 4)
    y = torch.cat([x, torch.randn(16, 2)], 1)
    loss = model(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(("dim", "sites"), [(1, set()), (0, {"left", "right"})])
def test_a_tower_that_mixes_samples_is_named(run_alike, dim, sites):
    store, found, _ = run_alike(TRAINING.format(dim=dim))
    told = {
        one.site
        for one in store.events(found.id, kind="check")
        if one.data["check"] == "samples_are_independent" and one.data["outcome"] == "broken"
    }
    assert told == sites
    assert ("sample_mixing" in {one.cause for one in store.findings(found.id)}) == bool(sites)


def test_a_part_that_gets_something_else_is_left_alone(run_alike):
    """What a model makes of its inputs before it calls a part may be no batch of samples."""
    store, found, _ = run_alike(TRAINING.format(dim=0).replace("self.left(x)", "self.left(x.flip(0))"))
    checked = {one.site for one in store.events(found.id, kind="check") if one.data.get("occasion") == 2}
    assert "right" in checked
    assert "left" not in checked
