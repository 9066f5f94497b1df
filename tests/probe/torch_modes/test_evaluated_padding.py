"""Rows of tokens whose padding changes sides between training and evaluation."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.reads, self.head = nn.Embedding(50, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 50)
    def forward(self, x):
        return self.head(self.reads(self.tokens(x))[0][:, -1])
def batch(is_behind):
    x = torch.randint(1, 50, (32, 10))
    for row, size in zip(x, torch.randint(1, 9, (32,))):
        row[slice(-size, None) if is_behind else slice(None, size)] = 0
    return x
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(60):
    x = batch(False)
    loss = functional.cross_entropy(model(x), x.max(1).values)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 20 == 19:
        model.eval()
        with torch.no_grad():
            losses.append(model(batch({is_behind})).sum().item())
        model.train()
trained = [model]
"""


@pytest.mark.parametrize("is_behind", [True, False])
def test_an_evaluation_that_is_padded_on_the_other_side_is_told(run_alike, is_behind):
    store, found, _ = run_alike(TRAINING.format(is_behind=is_behind))
    told = [one for one in store.findings(found.id) if one.cause == "train_val_shift"]
    assert [one.severity for one in told] == ["warning"] * is_behind
    assert all("have their zeros before the tokens" in one.explanation for one in told)
