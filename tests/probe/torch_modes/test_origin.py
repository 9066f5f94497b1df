"""Findings of executable checks are placed at the module in which what they found begins, or ends."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

SEQUENCE = """
class Attention(nn.Module):
    def __init__(self, sees_later):
        super().__init__()
        self.mix, self.sees_later = nn.Linear(8, 8), sees_later
    def forward(self, x):
        scores = x @ x.transpose(1, 2)
        if not self.sees_later:
            scores = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -1e9)
        return self.mix(scores.softmax(-1) @ x)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList([Attention(at == {later}) for at in range(3)])
        self.head = nn.Linear(8, 11)
    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(30):
    tokens = torch.randint(0, 11, (8, 7))
    loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
ROWS = """
class Centre(nn.Module):
    def forward(self, x):
        return x - x.mean({axis}, keepdim=True)
class Lost(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 8)
    def forward(self, x):
        return self.inner(x) * {kept}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.centre, self.side, self.head = nn.Linear(4, 8), Centre(), Lost(), nn.Linear(8, 2)
    def forward(self, x, more):
        return self.head(self.centre(self.first(x)).tanh() + self.side(more)){end}
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(30):
    x, more = torch.randn(16, 4), torch.randn(16, 3)
    loss = functional.{loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
RIGHT = {"axis": 1, "kept": 1.0, "end": "", "loss": "cross_entropy(model(x, more), (x.sum(1) > 0).long())"}


def sites(store, found, cause):
    return {one.site for one in store.findings(found.id) if one.cause == cause and one.severity != "info"}


@pytest.mark.parametrize("later", [0, 1, 2])
def test_a_leak_is_placed_at_the_layer_that_sees_later_positions(run_alike, later):
    store, found, _ = run_alike(SEQUENCE.format(later=later))
    assert sites(store, found, "data_leak") == {f"blocks.{later}"}


def test_a_model_that_sees_no_later_position_has_no_leak(run_alike):
    store, found, _ = run_alike(SEQUENCE.format(later=9))
    assert sites(store, found, "data_leak") == set()


@pytest.mark.parametrize(
    ("change", "cause", "site"),
    [
        ({"axis": 0}, "sample_mixing", "centre"),
        ({"kept": 0.0}, "ignored_input", "side"),
        ({"end": ".softmax(1)"}, "loss_input_domain", "head"),
    ],
)
def test_a_finding_is_placed_where_it_begins(run_alike, change, cause, site):
    store, found, _ = run_alike(ROWS.format(**{**RIGHT, **change}))
    assert sites(store, found, cause) == {site}
    healthy, other, _ = run_alike(ROWS.format(**RIGHT))
    assert sites(healthy, other, cause) == set()
