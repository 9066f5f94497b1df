"""Activations that are reshaped where their axes ought to be permuted."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from mindscope.insight import diagnose
from mindscope.probe.checks.reshaped_axes import exchanged_axes

TRAINING = """
class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.head = nn.Conv2d(3, 24, 3, padding=1), nn.Linear(24, 5)
    def forward(self, x):
        found = self.features(x).relu()
        return self.head({places}).max(1).values
model = Places()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(16, 3, 8, 8)
    loss = functional.cross_entropy(model(x), (x[:, 0, 0, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(
    ("places", "outcome"),
    [
        ("found.reshape(len(x), 64, 24)", "broken"),
        ("found.permute(0, 2, 3, 1).reshape(len(x), 64, 24)", "held"),
        ("found.flatten(2).transpose(1, 2)", "held"),
        # the option `mix` of a published forecaster: what has the right order is permuted, then joined
        ("found.flatten(2).mT.contiguous().transpose(1, 2).contiguous().view(len(x), 64, 24)", "held"),
    ],
)
def test_places_of_a_picture(run_alike, places, outcome):
    store, found, _ = run_alike(TRAINING.format(places=places))
    told = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert told.get("reshapes_keep_the_order_of_axes") == outcome
    named = {one.cause for one in store.findings(found.id)}
    assert ("reshape_error" in named) == (outcome == "broken")


HEADS = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 48)
    def forward(self, x):
        q, k, v = self.project(x).view(len(x), 12, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.{merged}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(9, 16), nn.Embedding(12, 16)
        self.attention, self.head = Attention(), nn.Linear(16, 9)
    def forward(self, tokens):
        x = self.embed(tokens) + self.place.weight
        return self.head(x + self.attention(x))
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    tokens = torch.randint(0, 9, (8, 13))
    loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(
    ("merged", "roots"),
    [
        ("contiguous().view(len(x), 12, 16)", ["reshape_error"]),
        ("transpose(1, 2).reshape(len(x), 12, 16)", []),
    ],
)
def test_heads_that_are_merged_as_they_are_leak_the_future(run_alike, merged, roots):
    store, found, _ = run_alike(HEADS.replace("{merged}", merged))
    told = diagnose(store, found.id)
    assert [root.cause for root in told.root_causes if root.cause in ("reshape_error", "data_leak")] == roots
    assert all(root.site == "attention" for root in told.root_causes if root.cause == "reshape_error")
    assert [one.cause for one in told.findings if one.cause == "data_leak"] == ["data_leak"] * len(roots)


SCRAMBLED = """
model = nn.Conv2d(1, 3, 3, padding=1)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(40):
    x = torch.randn(8, 1, 6, 6)
    classes = (x[:, 0] > 0).long() + (x[:, 0] > 1).long()
    share, wanted = model(x).softmax(1), functional.one_hot(classes, 3)
    loss = 1 - (share * {wanted}).sum() / wanted.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(
    ("wanted", "outcome"),
    [("wanted.view_as(share)", "broken"), ("wanted.permute(0, 3, 1, 2).reshape(share.shape)", "held")],
)
def test_classes_of_a_mask(run_alike, wanted, outcome):
    store, found, _ = run_alike(SCRAMBLED.format(wanted=wanted))
    told = {
        one.data["subject"]: one.data["outcome"]
        for one in store.events(found.id, kind="check")
        if one.data["check"] == "reshapes_keep_the_order_of_axes"
    }
    assert told["the loss"] == outcome
    named = {one.cause for one in store.findings(found.id)}
    assert ("reshape_error" in named) == (outcome == "broken")


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        ((32, 24, 8, 8), (32, 64, 24), (0, 2, 3, 1)),
        ((32, 12, 7), (32, 7, 12), (0, 2, 1)),
        ((32, 10, 64), (32, 10, 4, 16), None),  # heads
        ((32, 10, 4, 16), (32, 10, 64), None),
        ((10, 16, 64), (10, 64, 16), None),  # heads that are joined with the batch, of the batch's size
        ((320, 64), (32, 10, 64), None),
        ((32, 4, 10, 11), (32, 4, 11, 10), None),  # relative positions
        ((32, 64, 32), (32, 32, 64), None),  # pairs of steps
        ((32, 7, 1), (32, 1, 7), None),
        ((32, 16, 8, 8), (2048, 16), (0, 2, 3, 1)),  # rows of channels, as a codebook is looked up for
        ((32, 64, 8, 8), (2048, 64), None),  # maps, flattened
        ((32, 8, 4, 4), (1024, 4), None),
        ((7, 16, 8, 8), (448, 16), None),
        ((32, 0, 5), (32, 5, 0), None),
        ((), (1,), None),
    ],
)
def test_orders_of_axes(before, after, order):
    assert exchanged_axes(before, after, {32, 16}) == order


LARGER = """
class Larger(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 12, 3, padding=1), {last}
    def forward(self, x):
        return self.last(self.first(x).relu()){reshaped}
model = Larger()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    x = torch.randn(16, 3, 8, 8)
    wanted = functional.interpolate(x, scale_factor=2)
    loss = functional.mse_loss(model(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""


@pytest.mark.parametrize(
    ("last", "reshaped", "outcome"),
    [
        ("nn.Conv2d(12, 12, 1)", ".reshape(len(x), 3, 16, 16)", "broken"),
        ("nn.PixelShuffle(2)", "", "held"),
        (
            "nn.Conv2d(12, 12, 1)",
            ".view(len(x), 3, 2, 2, 8, 8).permute(0, 1, 4, 2, 5, 3).reshape(len(x), 3, 16, 16)",
            "held",
        ),
    ],
)
def test_channels_that_become_larger_pictures(run_alike, last, reshaped, outcome):
    store, found, _ = run_alike(LARGER.format(last=last, reshaped=reshaped))
    told = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert told.get("reshapes_keep_the_order_of_axes", "held") == outcome
    assert ("reshape_error" in {one.cause for one in store.findings(found.id)}) == (outcome == "broken")
