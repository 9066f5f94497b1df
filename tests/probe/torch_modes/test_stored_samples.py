"""A data set whose samples are changed in place is told; what is written anew, or on purpose, is not."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

TRAINING = """
class Marked(torch.utils.data.Dataset):
    def __init__(self, count=80):
        self.inputs, self.labels = torch.randn(count, 4, 8), torch.randint(0, 3, (count,))
        self.cache, self.soft = torch.zeros(count, 4, 8), torch.rand(count, 32)
        self.marks = functional.one_hot(torch.randint(32, (count,)), 32).float()
        self.several = [torch.randn(4, 8) for _ in range(count)]
        self.texts = torch.randint(1, 30, (count, 20))
        self.pairs = [(torch.randn(4, 8), number) for number in range(count)]
    def __len__(self):
        return len(self.inputs)
    def __getitem__(self, number):
        x = self.inputs[number]
        {change}
        return x, self.labels[number]
data = Marked()
model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for epoch in range(6):
    for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
trained = [model]
"""


def _found(run_alike, change):
    store, run, _ = run_alike(TRAINING.format(change=change))
    told = [one.data for one in store.events(run.id, kind="check") if one.data["check"] == "stored_samples_stay"]
    return [one["outcome"] for one in told], [one for one in store.findings(run.id) if one.cause == "train_val_shift"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("x[:, :3] = 0.0", "Marked.inputs"),
        ("x = self.several[number]; x[1] = 2.0", "Marked.several"),
        ("x, _ = self.pairs[number]; x[1] = 2.0", "Marked.pairs"),
        ("self.texts[number][torch.rand(20) < 0.2] = 0", "Marked.texts"),
    ],
)
def test_a_transform_that_writes_into_the_data_is_named(run_alike, change, name):
    outcomes, (finding,) = _found(run_alike, change)
    assert outcomes == ["broken"]
    assert f"samples of {name} have changed in place since the first look" in finding.explanation
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    "change",
    [
        "x = x.clone(); x[:, :3] = 0.0",
        "self.cache[number] = x",  # filled once
        "self.marks[number] = functional.one_hot(torch.randint(32, ()), 32).float()",  # another sample in its place
        "self.soft[number] = torch.rand(32)",  # labels that are improved on the way
        "self.inputs = torch.randn(80, 4, 8)",
        "self.inputs[number] = torch.randn(4, 8)",  # as in a buffer
    ],
)
def test_what_is_written_on_purpose_is_not(run_alike, change):
    outcomes, findings = _found(run_alike, change)
    assert findings == []
    assert "broken" not in outcomes
