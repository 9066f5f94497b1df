"""Attention: weights that sum to one over what they weigh, and tokens whose order the model knows."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(20, 8), nn.Embedding(12, 8)
        self.query, self.key, self.value, self.head = (nn.Linear(8, 8) for _ in range(4))
        self.head = nn.Linear(8, 20)
    def forward(self, ids):
        x = self.embed(ids) + {place} * self.place(torch.arange(ids.shape[1]))
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5
        {mask}
        x = x + {weights} @ self.value(x)
        return self.head({pooled})
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(30):
    ids = torch.randint(0, 20, (8, 12))
    loss = functional.cross_entropy(model(ids).flatten(0, -2), {target})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
trained = [model]
"""
RIGHT = {
    "place": "1",
    "mask": "",
    "weights": "scores.softmax(-1)",
    "pooled": "x",
    "target": "((ids + 1) % 20).flatten()",
}
POOLED = {"pooled": "x.mean(1)", "target": "ids[:, 0]"}
LATER = "scores = scores.masked_fill(torch.ones(12, 12).triu(1).bool(), -1e9)"


@pytest.mark.parametrize(
    ("change", "weights", "order"),
    [
        ({}, "held", "held"),
        ({"weights": "functional.dropout(functional.softmax(scores, dim=2), 0.1, self.training)"}, "held", "held"),
        ({"weights": "functional.softmax(scores, dim=1)"}, "broken", "held"),
        ({"weights": "functional.softmax(scores, dim=1).transpose(1, 2)"}, None, None),
        ({"place": "0"}, "held", "broken"),
        ({"place": "0", **POOLED}, "held", "broken"),
        ({"place": "0", "mask": LATER}, "held", "held"),
        ({"place": "0", "weights": "0 * scores.cos()"}, None, None),
    ],
)
def test_attention_is_checked(run_alike, change, weights, order):
    store, found, _ = run_alike(TRAINING.format(**{**RIGHT, **change}))
    told = {one.data["check"]: one.data["outcome"] for one in store.events(found.id, kind="check")}
    assert told.get("attention_weights_sum_to_one") == weights
    assert told.get("order_of_tokens_matters") == order
    named = {one.cause for one in store.findings(found.id) if one.severity != "info"}
    assert ("loss_input_domain" in named) == (weights == "broken")
    assert ("ignored_input" in named) == (order == "broken")
